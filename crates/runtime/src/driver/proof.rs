//! Proof that this owner still has the session, for answers that leave nothing in the log.
//!
//! An owner that stood still may have been replaced and not know it. Its appends conflict; what it
//! answers without one would go out unfenced: a letter is removed that the next owner needs, a timer
//! is forgotten that woke nobody, a client is told of a state that is past. So such an answer waits
//! for a reading of the tail that began after the question, or for a commit whose append did.

use std::sync::Arc;
use std::time::Duration;

use steadfast_store::error::ReadError;
use steadfast_store::log::Tail;
use tokio::task;

use super::chores::Chore;
use super::{Driver, End};

/// Which questions have their proof; they are numbered in their order.
#[derive(Default)]
pub(super) struct Proof {
    asked: u64,
    given: u64,
    /// Those that had been asked when the append in flight began.
    departed: u64,
    reading: Option<Reading>,
}

/// A reading of the tail under way.
struct Reading {
    id: task::Id,
    /// The last question that it answers.
    covers: u64,
    /// Where the tail stands if nobody else has appended.
    expected: Tail,
}

impl Proof {
    /// Whether a question has its proof; number 0 needs none.
    pub(super) fn covers(&self, number: u64) -> bool {
        number <= self.given
    }

    /// An append begins.
    pub(super) fn departs(&mut self) {
        self.departed = self.asked;
    }
}

impl Driver {
    /// The number of a question that is asked now. What is decided and was not sent yet is proof
    /// enough once it is committed; where nobody else is, nothing needs any.
    pub(super) fn number_of_question(&mut self) -> u64 {
        if self.host.members.are_alone() || self.journal.newest().is_some() {
            return 0;
        }
        self.proof.asked += 1;
        self.seek_proof(Duration::ZERO);
        self.proof.asked
    }

    /// The append in flight is committed.
    pub(super) fn proven_by_commit(&mut self) {
        self.proof.given = self.proof.given.max(self.proof.departed);
        self.seek_proof(Duration::ZERO);
    }

    fn seek_proof(&mut self, wait: Duration) {
        if self.proof.reading.is_some() || self.proof.given >= self.proof.asked {
            return;
        }
        let (log, key) = (Arc::clone(&self.host.stores.log), self.seat.key.clone());
        let id = self.chores.spawn(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            Chore::TailRead(log.tail(&key).await.map(|info| info.tail))
        });
        self.proof.reading = Some(Reading {
            id,
            covers: self.proof.asked,
            expected: self.journal.tail(),
        });
    }

    pub(super) fn tail_read(&mut self, tail: Result<Tail, ReadError>) -> Option<End> {
        let reading = self.proof.reading.take()?;
        let mut wait = Duration::ZERO;
        match tail {
            Ok(tail) if tail == reading.expected => {
                self.proof.given = self.proof.given.max(reading.covers);
            }
            // It may be this owner's own Record that stands there.
            Ok(_) if self.landing.is_some() => return None,
            Ok(_) if self.journal.tail() != reading.expected => {}
            Ok(_) => {
                tracing::info!(session = %self.seat.key, "session was changed by another owner");
                return Some(End::Lost);
            }
            Err(error) => {
                tracing::debug!(session = %self.seat.key, %error, "tail not read, again");
                wait = self.host.options.mail_delay;
            }
        }
        self.seek_proof(wait);
        self.answer_committed();
        None
    }

    /// A chore panicked.
    pub(super) fn reading_failed(&mut self, id: task::Id) {
        if self
            .proof
            .reading
            .take_if(|reading| reading.id == id)
            .is_some()
        {
            self.seek_proof(self.host.options.mail_delay);
        }
    }
}
