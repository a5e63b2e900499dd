//! Limits of a remote worker, each with its default.

use std::time::Duration;

/// Limits of a remote worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Jobs that run at the same time, at most; further ones stay in the queue.
    pub concurrency_max: usize,
    /// How often it is said that a job is still worked on: well below the queue's silence.
    pub keep_alive_every: Duration,
    /// How long a tool may take to stop by itself when it is cancelled or its time is over.
    pub cancel_grace: Duration,
    /// How long jobs may go on when the worker is shut down; then they are cancelled.
    pub drain_grace: Duration,
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
            concurrency_max: 64,
            keep_alive_every: Duration::from_secs(10),
            cancel_grace: Duration::from_secs(5),
            drain_grace: Duration::from_secs(20),
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
        let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
        self.retry_min.saturating_mul(doubled).min(self.retry_max)
    }
}
