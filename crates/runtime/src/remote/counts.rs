//! What happened to jobs on this node, for its metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the jobs that this node put into the tool queue or had out of it.
#[derive(Debug, Default)]
pub(crate) struct JobCounts {
    pub(crate) put: AtomicU64,
    pub(crate) taken: AtomicU64,
    pub(crate) redelivered: AtomicU64,
    pub(crate) claimed: AtomicU64,
    pub(crate) claims_lost: AtomicU64,
    pub(crate) given_back: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) running: AtomicU64,
}

/// The counters at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobFigures {
    /// Jobs of this node's sessions that were put into the queue.
    pub put: u64,
    /// Deliveries of jobs that this node took out of the queue.
    pub taken: u64,
    /// Those of them that were not the job's first delivery.
    pub redelivered: u64,
    /// Claims of `never` runs that this node got.
    pub claimed: u64,
    /// Jobs dropped since another delivery, or the session itself, had their claim.
    pub claims_lost: u64,
    /// Jobs given back to the queue.
    pub given_back: u64,
    /// Answers that stand in the mailboxes of their sessions.
    pub answered: u64,
    /// Jobs here that were told that nobody wants their call any more.
    pub cancelled: u64,
    /// Jobs that run here now.
    pub running: u64,
}

impl JobCounts {
    /// One more.
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// One more as long as what is returned is kept.
    pub(crate) fn during(counter: &AtomicU64) -> impl Drop + use<'_> {
        Self::add(counter);
        Kept(counter)
    }

    pub(crate) fn figures(&self) -> JobFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        JobFigures {
            put: read(&self.put),
            taken: read(&self.taken),
            redelivered: read(&self.redelivered),
            claimed: read(&self.claimed),
            claims_lost: read(&self.claims_lost),
            given_back: read(&self.given_back),
            answered: read(&self.answered),
            cancelled: read(&self.cancelled),
            running: read(&self.running),
        }
    }
}

struct Kept<'a>(&'a AtomicU64);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
