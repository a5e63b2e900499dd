//! How a node that stops hands its sessions over: as many at a time as others take.
//!
//! A session that waits for its turn still has its owner, and its model goes on; one that was let
//! go has nobody until another node has room for it. So each turn lasts from the decision to let go
//! until the session is seen in other hands. When nobody takes any, nothing is gained by waiting,
//! and all are let go at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;
use steadfast_store::log::{Log, Tail};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::members::Members;
use crate::options::Options;

/// The turns of one node.
pub(crate) struct Handover {
    /// Closed once nobody takes sessions.
    turns: Arc<Semaphore>,
    patience: Duration,
    last_taken: Mutex<Option<Instant>>,
}

/// A session's turn, until it is dropped.
pub(crate) struct Turn {
    since: Instant,
    /// None where sessions go without taking turns.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Signals of a session's log, which may tell of its next owner.
pub(crate) type News = BoxStream<'static, ()>;

impl Handover {
    pub(crate) fn of(options: &Options, members: &Members) -> Self {
        let turns_max = match members.are_alone() {
            // Nobody takes them: the next start goes on.
            true => Semaphore::MAX_PERMITS,
            false => options.handovers_max,
        };
        Self::new(turns_max, options.handover_patience)
    }

    fn new(turns_max: usize, patience: Duration) -> Self {
        Self {
            turns: Arc::new(Semaphore::new(turns_max.max(1))),
            patience,
            last_taken: Mutex::default(),
        }
    }

    fn last_taken(&self) -> MutexGuard<'_, Option<Instant>> {
        // A single value: a panic elsewhere means nothing here.
        self.last_taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn, in the order in which they were asked for.
    pub(crate) async fn turn(&self) -> Turn {
        let permit = Arc::clone(&self.turns).acquire_owned().await.ok();
        Turn {
            since: Instant::now(),
            _permit: permit,
        }
    }

    /// Ends a session's turn once another owner stands in its log after `released`.
    pub(crate) async fn see_taken(
        &self,
        turn: Turn,
        log: &dyn Log,
        session: &SessionKey,
        released: Tail,
        news: News,
    ) {
        if self.turns.is_closed() {
            return;
        }
        let taken = timeout(self.patience, taken(log, session, released, news)).await;
        // A signal may have been lost.
        if taken.unwrap_or(false) || has_moved(log, session, released).await {
            *self.last_taken() = Some(Instant::now());
            return;
        }
        let some_go = self.last_taken().is_some_and(|at| at >= turn.since);
        if !some_go && !self.turns.is_closed() {
            tracing::warn!(%session, "no other node takes sessions: all are let go at once");
            self.turns.close();
        }
    }
}

async fn taken(log: &dyn Log, session: &SessionKey, released: Tail, mut news: News) -> bool {
    while news.next().await.is_some() {
        if has_moved(log, session, released).await {
            return true;
        }
    }
    false
}

async fn has_moved(log: &dyn Log, session: &SessionKey, released: Tail) -> bool {
    match log.tail(session).await {
        Ok(info) => info.tail > released,
        Err(error) => {
            tracing::debug!(%session, %error, "next owner not looked for");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_are_taken_in_order_and_so_many_at_a_time() {
        let handover = Handover::new(1, Duration::from_secs(1));
        let first = handover.turn().await;
        let mut second = Box::pin(handover.turn());
        let mut third = Box::pin(handover.turn());
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_some());
    }
}
