//! The wall clock as a port, so that tests and the simulator own time.

use std::time::{SystemTime, UNIX_EPOCH};

use steadfast_core::id::Timestamp;

/// Tells the time of day. Waiting is done on tokio's clock, which tests pause.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Timestamp;
}

/// The operating system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Timestamp(since.map_or(0, |since| since.as_millis() as u64))
    }
}
