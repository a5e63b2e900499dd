//! Progress of remote calls: from their workers, wherever they are, to the followers of the session,
//! as the progress of a call that runs here.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use steadfast_core::call::CallState;
use steadfast_core::id::{CallId, Epoch, TurnId};
use steadfast_core::input::Place;
use steadfast_core::session::Session;
use steadfast_protocol::live::Delta;
use steadfast_protocol::tool;
use steadfast_store::ToolQueue;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::feed::Feed;
use crate::host::{Host, backoff};

/// Listens while remote calls of the session are open, and not otherwise.
#[derive(Default)]
pub(super) struct Progress {
    listening: Option<(Open, AbortOnDropHandle<()>)>,
    heard: Arc<Mutex<Option<Instant>>>,
}

/// The remote calls of the open step that have no outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    epoch: Epoch,
    turn: TurnId,
    step: u32,
    calls: Vec<CallId>,
}

impl Open {
    fn of(session: &Session) -> Option<Self> {
        let turn = session.turn.as_ref()?;
        let is_open = |state: &CallState| {
            matches!(state, CallState::Started { .. } | CallState::Queued { .. })
        };
        let open = turn.calls.iter();
        let open = open.filter(|call| call.triage.place == Place::Remote && is_open(&call.state));
        let calls: Vec<CallId> = open.map(|call| call.id).collect();
        (!calls.is_empty()).then_some(Self {
            epoch: session.epoch,
            turn: turn.id,
            step: turn.step,
            calls,
        })
    }
}

impl Progress {
    /// Listens for what this state waits for.
    pub(super) fn follow(&mut self, session: &Session, host: &Arc<Host>, feed: &Arc<Feed>) {
        let Some(queue) = &host.stores.tool_queue else {
            return;
        };
        let open = Open::of(session);
        if self.listening.as_ref().map(|(open, _)| open) == open.as_ref() {
            return;
        }
        self.listening = open.map(|open| {
            let listener = Listener {
                host: Arc::clone(host),
                feed: Arc::clone(feed),
                queue: queue.clone(),
                open: open.clone(),
                heard: Arc::clone(&self.heard),
            };
            let session = session.key.clone();
            let task = tokio::spawn(async move { listener.listen(&session).await });
            (open, AbortOnDropHandle::new(task))
        });
    }

    /// When a worker last said how far it is: who shows it keeps the session.
    pub(super) fn heard_at(&self) -> Option<Instant> {
        self.listening.as_ref()?;
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Listener {
    host: Arc<Host>,
    feed: Arc<Feed>,
    queue: ToolQueue,
    open: Open,
    heard: Arc<Mutex<Option<Instant>>>,
}

impl Listener {
    async fn listen(&self, session: &steadfast_core::id::SessionKey) {
        let options = &self.host.options;
        let mut failures = 0;
        loop {
            match self.queue.jobs.progressed(session).await {
                Ok(mut words) => {
                    failures = 0;
                    while let Some(bytes) = words.next().await {
                        self.show(&bytes);
                    }
                }
                Err(error) => tracing::debug!(%session, %error, "progress not heard, again"),
            }
            failures += 1;
            let (min, max) = (options.append_retry_min, options.append_retry_max);
            tokio::time::sleep(backoff(min, max, failures)).await;
        }
    }

    fn show(&self, bytes: &[u8]) {
        let said = match tool::decode_progress(bytes) {
            Ok(said) => said,
            Err(error) => {
                tracing::debug!(%error, "a worker's progress was not understood");
                return;
            }
        };
        let (call, output) = (said.call, said.output);
        let Open {
            epoch, turn, step, ..
        } = self.open;
        if self.open.calls.contains(&call) {
            let now = Some(Instant::now());
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = now;
            let delta = Delta::ToolProgress { call, output };
            self.feed.progress(epoch, turn, step, delta);
        }
    }
}
