//! Mailboxes in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;

use crate::error::{ReadError, WriteError};
use crate::local::{MailQueue, lock};
use crate::mailbox::{Delivery, LANE_LETTERS_MAX, Lane, Letter, MailSeq, Mailbox, SendError};

/// Mailboxes of all sessions in memory.
#[derive(Debug)]
pub struct MemoryMailbox {
    state: Mutex<State>,
    queue: MailQueue,
}

#[derive(Debug, Default)]
struct State {
    letters_ever: u64,
    sessions: BTreeMap<SessionKey, BTreeMap<MailSeq, Letter>>,
}

impl MemoryMailbox {
    /// Empty mailboxes; a delivery that meets silence comes again after `silence`.
    pub fn new(silence: Duration) -> Self {
        Self {
            state: Mutex::default(),
            queue: MailQueue::new(silence),
        }
    }
}

#[async_trait]
impl Mailbox for MemoryMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        _id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        let mut state = lock(&self.state);
        let seq = MailSeq(state.letters_ever + 1);
        let letters = state.sessions.entry(session.clone()).or_default();
        let in_lane = letters.values().filter(|letter| letter.lane == lane);
        if in_lane.count() >= LANE_LETTERS_MAX {
            return Err(SendError::Full);
        }
        letters.insert(seq, Letter { seq, lane, bytes });
        state.letters_ever = seq.0;
        drop(state);
        self.queue.arrived(session, seq);
        Ok(seq)
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        let state = lock(&self.state);
        let Some(letters) = state.sessions.get(session) else {
            return Ok(Vec::new());
        };
        let newer = letters.range((Bound::Excluded(after), Bound::Unbounded));
        Ok(newer
            .take(limit)
            .map(|(_, letter)| letter.clone())
            .collect())
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        let mut state = lock(&self.state);
        if let Some(letters) = state.sessions.get_mut(session) {
            letters.retain(|seq, _| *seq > up_to);
            if letters.is_empty() {
                state.sessions.remove(session);
            }
        }
        drop(state);
        self.queue.acknowledged(session, up_to);
        Ok(())
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        Ok(self.queue.next().await)
    }

    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        self.queue.give_back(&delivery, delay);
        Ok(())
    }
}
