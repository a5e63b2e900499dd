//! What waits to be sent: the caller never does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use steadfast_core::id::SessionKey;
use tokio::sync::{Notify, mpsc};

use super::wire::Envelope;
use crate::request::Shared;
use crate::subject::Names;
use crate::task::{Owned, lock};

/// Messages that wait to be sent.
const MESSAGES_MAX: usize = 4_096;
/// Sessions whose messages are counted; a session that is dropped from the count is told of a loss
/// it may not have had.
const COUNTED_MAX: usize = 65_536;

/// Messages on their way to the broker.
pub(crate) struct Outbox {
    names: Arc<Names>,
    sender: u64,
    queue: mpsc::Sender<(String, Bytes)>,
    state: Arc<State>,
    _task: Owned,
}

#[derive(Debug, Default)]
struct State {
    counts: Mutex<Counts>,
    /// A loss waits to be told.
    loss: Notify,
}

#[derive(Debug, Default)]
struct Counts {
    numbers: BTreeMap<SessionKey, u64>,
    /// Sessions whose followers are not told yet that frames were lost.
    lost: BTreeSet<SessionKey>,
}

impl Counts {
    fn next(&mut self, session: &SessionKey) -> u64 {
        if let Some(number) = self.numbers.get_mut(session) {
            *number = number.wrapping_add(1);
            return *number;
        }
        if self.numbers.len() >= COUNTED_MAX {
            self.numbers.clear();
        }
        // Not a small number: whoever counted this session before must see a gap.
        let number = u64::from(rand::random::<u32>()) << 32;
        self.numbers.insert(session.clone(), number);
        number
    }
}

impl Outbox {
    pub(crate) fn new(connection: Shared, names: Arc<Names>, sender: u64) -> Self {
        let (queue, messages) = mpsc::channel(MESSAGES_MAX);
        let state = Arc::new(State::default());
        let task = Sender {
            connection,
            names: Arc::clone(&names),
            sender,
            messages,
            state: Arc::clone(&state),
        };
        Self {
            names,
            sender,
            queue,
            state,
            _task: Owned::spawn(task.run()),
        }
    }

    /// Sends a frame, or loses it.
    pub(crate) fn frame(&self, session: &SessionKey, frame: &[u8]) {
        // Counted and queued under one lock, so that numbers rise in the order of the queue.
        let mut counts = lock(&self.state.counts);
        if counts.lost.contains(session) {
            return;
        }
        match self.queue.try_reserve() {
            Ok(place) => {
                let envelope = Envelope {
                    sender: self.sender,
                    number: counts.next(session),
                    frame: Some(frame),
                };
                place.send((self.names.live(session), envelope.write().into()));
            }
            Err(_) => {
                counts.lost.insert(session.clone());
                drop(counts);
                self.state.loss.notify_one();
            }
        }
    }

    /// Tells of a loss.
    pub(crate) fn lost(&self, session: &SessionKey) {
        lock(&self.state.counts).lost.insert(session.clone());
        self.state.loss.notify_one();
    }
}

struct Sender {
    connection: Shared,
    names: Arc<Names>,
    sender: u64,
    messages: mpsc::Receiver<(String, Bytes)>,
    state: Arc<State>,
}

impl Sender {
    async fn run(mut self) {
        loop {
            tokio::select! {
                // What waits is older than a loss, and goes first.
                biased;
                message = self.messages.recv() => {
                    let Some((subject, bytes)) = message else { return };
                    self.send(subject, bytes).await;
                }
                () = self.state.loss.notified() => self.tell_losses().await,
            }
        }
    }

    async fn tell_losses(&self) {
        loop {
            let told = {
                let mut counts = lock(&self.state.counts);
                let Some(session) = counts.lost.pop_first() else {
                    return;
                };
                let envelope = Envelope {
                    sender: self.sender,
                    number: counts.next(&session),
                    frame: None,
                };
                (self.names.live(&session), envelope.write())
            };
            self.send(told.0, told.1.into()).await;
        }
    }

    /// Not kept for a connection that is down: a late frame is worth less than none.
    async fn send(&self, subject: String, bytes: Bytes) {
        let up = self.connection.link().borrow().up;
        if up && let Err(error) = self.connection.client.publish(subject, bytes).await {
            tracing::debug!(%error, "a live message was not sent");
        }
    }
}
