//! The wall clock as a port, so that tests and the simulator own time.

use std::time::{SystemTime, UNIX_EPOCH};

use steadfast_core::id::Timestamp;
use tokio::time::Instant;

/// Tells the wall-clock time.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock set before 1970 shows the epoch: sessions never go back in time anyway.
        let elapsed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A clock that starts at a given time and runs as tokio's does: with paused time it stands still
/// until time is advanced.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: Timestamp,
    started: Instant,
}

impl TokioClock {
    /// A clock that shows `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            started: Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.start.plus_ms(elapsed_ms)
    }
}
