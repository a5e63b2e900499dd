//! What a Rust tool is told of the call that it runs.

use std::time::Duration;

use serde_json::Value;
use steadfast_core::id::{Epoch, Fence, SessionKey, TurnId};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::worker::{Job, ToolIo};

/// One attempt of a call, as the function sees it.
#[derive(Debug, Clone)]
pub struct ToolCall {
    job: Job,
    io: ToolIo,
    started: Instant,
}

impl ToolCall {
    pub(crate) fn new(job: Job, io: ToolIo) -> Self {
        Self {
            job,
            io,
            started: Instant::now(),
        }
    }

    /// A call that is only asked about: it is not cancelled and shows no progress.
    pub(crate) fn of_check(job: Job) -> Self {
        let (progress, _) = mpsc::channel(1);
        Self::new(job, ToolIo::new(CancellationToken::new(), progress))
    }

    /// What the tool dedupes by: the same at every attempt, never that of another call.
    pub fn key(&self) -> String {
        self.job.key()
    }

    /// The session.
    pub fn session(&self) -> &SessionKey {
        &self.job.session
    }

    /// The turn.
    pub fn turn(&self) -> TurnId {
        self.job.turn
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.job.attempt
    }

    /// Ownership generation of the session: rises when another node takes over.
    pub fn epoch(&self) -> Epoch {
        self.job.epoch
    }

    /// Rises from attempt to attempt of the call, whichever node runs it. A tool with a check that
    /// said `NotDone` refuses attempts whose fence is not above that of the check.
    pub fn fence(&self) -> Fence {
        self.job.fence()
    }

    /// Time left for this attempt.
    pub fn remaining(&self) -> Duration {
        Duration::from_millis(self.job.remaining_ms).saturating_sub(self.started.elapsed())
    }

    /// Cancelled when the outcome is no longer wanted or its time is over. The function has 5 s to
    /// stop by itself; after that it is dropped at its next `await`.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.io.cancelled
    }

    /// Shows a preliminary result to the client. The last one told counts until the result comes;
    /// it is dropped when the client's stream cannot take it now.
    pub fn progress(&self, preliminary: impl Into<Value>) {
        // Full or closed means that nobody can see it: there is nothing else to do with it.
        let _dropped_when_full = self.io.progress.try_send(preliminary.into());
    }

    /// Why a person agreed, if one was asked and said so.
    pub fn approval_reason(&self) -> Option<&str> {
        self.job.approval_reason.as_deref()
    }

    /// The message's own metadata, as it was sent.
    pub fn metadata(&self) -> &Value {
        &self.job.metadata
    }

    /// W3C `traceparent` of the call, for requests that the tool makes.
    pub fn traceparent(&self) -> Option<&str> {
        self.job.traceparent.as_deref()
    }
}
