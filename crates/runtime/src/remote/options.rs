//! Limits of a worker of remote tools, each with its default.

use std::time::Duration;

use crate::host::backoff;

/// Limits of a worker of remote tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Jobs that this node has out of the queue at the same time, at most; further ones stay there.
    /// One tool takes no more than three quarters of them, and no more than run at the same time.
    pub jobs_max: usize,
    /// How often it is said that a job is still worked on: well below the queue's silence.
    pub keep_alive_every: Duration,
    /// How long a job waits for a place in its tool's pool before other nodes may have it.
    pub place_patience: Duration,
    /// A job that cannot be run here now is given back for this long.
    pub give_back_delay: Duration,
    /// First wait after a failed write or read; doubled each time.
    pub retry_min: Duration,
    /// Longest such wait.
    pub retry_max: Duration,
    /// How long an answer that cannot be sent is tried again.
    pub answer_patience: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            jobs_max: 64,
            keep_alive_every: Duration::from_secs(10),
            place_patience: Duration::from_secs(5),
            give_back_delay: Duration::from_secs(5),
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(5),
            answer_patience: Duration::from_secs(600),
        }
    }
}

impl WorkerOptions {
    /// The wait before a try, counted from 1.
    pub(super) fn wait(&self, tries: u32) -> Duration {
        backoff(self.retry_min, self.retry_max, tries)
    }
}
