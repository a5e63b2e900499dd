//! Live frames over the broker's plain messages, which are not stored.
//!
//! ```text
//!   publish --+--> followers in this process
//!             +--> outbox (bounded) --> sf.live.<t>.<s> --> one listener for each session that is
//!                                                           followed there --> its followers
//! ```
//!
//! Messages of one sender and session are counted, so a listener sees a gap; what the outbox had no
//! room for is told as a loss when it has.

mod outbox;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;
use steadfast_protocol::live::{self, LiveFrame};
use steadfast_store::error::ReadError;
use steadfast_store::live::{Live, LiveSignal};
use steadfast_store::local::LocalLive;

use crate::request::Shared;
use crate::subject::Names;
use crate::task::{Owned, lock};
use outbox::Outbox;
use wire::Envelope;

/// [`Live`] over the broker.
pub(crate) struct NatsLive {
    connection: Shared,
    names: Arc<Names>,
    /// Which process sends; its own messages come back and are known by it.
    sender: u64,
    local: Arc<LocalLive>,
    outbox: Outbox,
    listeners: Mutex<BTreeMap<SessionKey, Weak<Owned>>>,
}

impl NatsLive {
    pub(crate) fn new(connection: Shared, names: Arc<Names>) -> Self {
        let sender = rand::random();
        Self {
            outbox: Outbox::new(Arc::clone(&connection), Arc::clone(&names), sender),
            connection,
            names,
            sender,
            local: Arc::default(),
            listeners: Mutex::default(),
        }
    }

    /// The listener of a session, shared by all that follow it here.
    async fn listener(&self, session: &SessionKey) -> Result<Arc<Owned>, ReadError> {
        let there = lock(&self.listeners).get(session).and_then(Weak::upgrade);
        if let Some(listener) = there {
            return Ok(listener);
        }
        let subject = self.names.live(session);
        let told = self.connection.client.subscribe(subject).await;
        let told = told.map_err(|error| ReadError::Unavailable(error.to_string()))?;
        let mut listeners = lock(&self.listeners);
        if let Some(listener) = listeners.get(session).and_then(Weak::upgrade) {
            // Another follower was faster.
            return Ok(listener);
        }
        let listener = Arc::new(Owned::spawn(listen(
            told,
            self.connection.link(),
            self.sender,
            session.clone(),
            Arc::clone(&self.local),
        )));
        listeners.retain(|_, listener| listener.strong_count() > 0);
        listeners.insert(session.clone(), Arc::downgrade(&listener));
        Ok(listener)
    }
}

#[async_trait]
impl Live for NatsLive {
    fn publish(&self, session: &SessionKey, frame: Arc<LiveFrame>) {
        self.local.publish(session, Arc::clone(&frame));
        match live::encode(&frame) {
            Ok(bytes) => self.outbox.frame(session, &bytes),
            Err(error) => {
                tracing::warn!(%session, %error, "a live frame has no form and is lost");
                self.outbox.lost(session);
            }
        }
    }

    async fn subscribe(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, LiveSignal>, ReadError> {
        let listener = self.listener(session).await?;
        let signals = self.local.subscribe(session).await?;
        // The listener ends with its last follower.
        let kept = signals.map(move |signal| {
            let _listener = &listener;
            signal
        });
        Ok(kept.boxed())
    }
}

async fn listen(
    mut told: async_nats::Subscriber,
    mut link: tokio::sync::watch::Receiver<crate::connect::Link>,
    own: u64,
    session: SessionKey,
    local: Arc<LocalLive>,
) {
    let mut counted: Option<(u64, u64)> = None;
    loop {
        let message = tokio::select! {
            changed = link.changed() => {
                if changed.is_err() {
                    return;
                }
                // What was sent during a break is nowhere.
                local.lost(&session);
                continue;
            }
            message = told.next() => message,
        };
        let Some(message) = message else { return };
        let Some(envelope) = Envelope::read(&message.payload) else {
            tracing::debug!(%session, "a live message that cannot be read");
            continue;
        };
        if envelope.sender == own {
            continue;
        }
        let follows = counted.is_none_or(|(sender, number)| {
            sender != envelope.sender || envelope.number == number.wrapping_add(1)
        });
        counted = Some((envelope.sender, envelope.number));
        let frame = envelope.frame.map(live::decode);
        match frame {
            Some(Ok(frame)) => {
                if !follows {
                    local.lost(&session);
                }
                local.publish(&session, Arc::new(frame));
            }
            // Also a frame of a newer release.
            Some(Err(_)) | None => local.lost(&session),
        }
    }
}
