//! The mailbox on JetStream: a letter is a message in a work queue that all nodes share.
//!
//! Each letter is delivered to some node until it is removed. A node that has a newer letter of a
//! session out puts older ones off: the newer one stands for all, since whoever removes it removes
//! them too. So a session with much mail takes no more turns than another.

mod handed;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::jetstream::AckKind;
use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::mailbox::{
    Delivery, GIVE_BACK_DELAY_MAX, Lane, Letter, MailSeq, Mailbox, SendError,
};

use crate::fault::{Fault, code};
use crate::headers;
use crate::pull::{ConsumerName, Pulled, Puller};
use crate::request::Shared;
use crate::subject::Names;
use crate::task::lock;
use handed::{Handed, Offer};

/// Name of the consumer that all nodes share.
pub(crate) const CONSUMER: &str = "drivers";
/// Letters that are asked for at once: more than are given back and due again within the time that
/// a driver takes to look at them.
const LETTERS_AT_ONCE: usize = 16;
const MESSAGES_LANE: &str = "in";
pub(crate) const CONTROL_LANE: &str = "ctl";
/// Words of the broker for a subject with as many messages as it may have.
const FULL_TEXT: &str = "maximum messages per subject exceeded";

/// [`Mailbox`] on JetStream.
#[derive(Debug)]
pub(crate) struct NatsMailbox {
    connection: Shared,
    names: Arc<Names>,
    puller: Puller,
    handed: Mutex<Handed>,
}

impl NatsMailbox {
    pub(crate) fn new(connection: Shared, names: Arc<Names>, silence: Duration) -> Self {
        let consumers = (0..names.partitions).map(|partition| ConsumerName {
            stream: names.stream(&format!("MBOX_{partition}")),
            consumer: CONSUMER.to_owned(),
        });
        Self {
            puller: Puller::new(
                Arc::clone(&connection),
                consumers.collect(),
                LETTERS_AT_ONCE,
                silence,
            ),
            connection,
            names,
            handed: Mutex::new(Handed::new(silence)),
        }
    }

    /// Puts a message that is no letter aside, and out of the queue.
    async fn bury(&self, pulled: &Pulled) -> Result<(), WriteError> {
        tracing::error!(
            subject = pulled.subject,
            "a message that is no letter is put aside"
        );
        let mut map = pulled.headers.clone();
        map.insert(headers::SUBJECT, pulled.subject.as_str());
        let dead = self.names.dead();
        self.connection
            .publish(&dead, map, pulled.payload.clone())
            .await?;
        self.connection
            .tell_surely(&pulled.receipt, AckKind::Term)
            .await
    }
}

#[async_trait]
impl Mailbox for NatsMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        let subject = self.names.mail(session, lane_token(lane));
        let map = headers::map(&[(headers::LETTER, &plain(id))]);
        match self.connection.publish(&subject, map, bytes).await {
            Ok(stored) => Ok(MailSeq(stored.sequence)),
            Err(Fault::Refused { code, text, .. })
                if code == code::NOT_STORED && text.contains(FULL_TEXT) =>
            {
                Err(SendError::Full)
            }
            Err(fault) => Err(WriteError::from(fault).into()),
        }
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        let stream = self.names.mail_stream(session);
        let subject = self.names.mail(session, "*");
        // The leader says how far there is to read; any copy may have what is read.
        let Some(last) = self.connection.last(&stream, &subject).await? else {
            return Ok(Vec::new());
        };
        if last.sequence <= after.0 || limit == 0 {
            return Ok(Vec::new());
        }
        let from = after.0.saturating_add(1);
        let read = self
            .connection
            .fresh_range(&stream, &subject, from, last.sequence, limit);
        let letters = read.await?.into_iter().map(|got| {
            let lane = lane(&got.subject).ok_or_else(|| {
                ReadError::Corrupt(format!("{} is no lane of a mailbox", got.subject))
            })?;
            Ok(Letter {
                seq: MailSeq(got.sequence),
                lane,
                bytes: got.payload,
            })
        });
        letters.collect()
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        let stream = self.names.mail_stream(session);
        let subject = self.names.mail(session, "*");
        let below = up_to.0.saturating_add(1);
        self.connection
            .purge(&stream, &subject, Some(below))
            .await?;
        lock(&self.handed).removed(session, up_to);
        Ok(())
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        loop {
            let pulled = self.puller.next().await?;
            let Some(session) = session_of(&self.names, &pulled.subject) else {
                if let Err(error) = self.bury(&pulled).await {
                    tracing::warn!(%error, "it was not put aside and comes again");
                }
                continue;
            };
            let seq = MailSeq(pulled.sequence);
            let offer = lock(&self.handed).offer(&session, seq, &pulled.receipt, Instant::now());
            match offer {
                Offer::Take => {
                    return Ok(Delivery {
                        session,
                        up_to: seq,
                        deliveries: pulled.deliveries,
                    });
                }
                Offer::PutOff => {
                    let later = AckKind::Nak(Some(GIVE_BACK_DELAY_MAX));
                    if let Err(error) = self.connection.tell(&pulled.receipt, later).await {
                        tracing::debug!(%error, "a letter was not put off");
                    }
                }
            }
        }
    }

    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        let delay = delay.min(GIVE_BACK_DELAY_MAX);
        let given = lock(&self.handed).give_back(&delivery, delay, Instant::now());
        let Some((receipt, delay)) = given else {
            return Ok(());
        };
        self.connection
            .tell(&receipt, AckKind::Nak(Some(delay)))
            .await
    }
}

fn lane_token(lane: Lane) -> &'static str {
    match lane {
        Lane::Messages => MESSAGES_LANE,
        Lane::Control => CONTROL_LANE,
    }
}

fn lane(subject: &str) -> Option<Lane> {
    match crate::subject::last_token(subject) {
        MESSAGES_LANE => Some(Lane::Messages),
        CONTROL_LANE => Some(Lane::Control),
        _ => None,
    }
}

fn session_of(names: &Names, subject: &str) -> Option<SessionKey> {
    let (session, rest) = names.session_of("mbox", subject)?;
    matches!(rest, Some(MESSAGES_LANE | CONTROL_LANE)).then_some(session)
}

/// What a header may hold of a name that is only for people.
fn plain(id: &str) -> String {
    const CHARS_MAX: usize = 200;
    let seen = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    id.chars().map(seen).take(CHARS_MAX).collect()
}
