//! The timer port: wakes sessions that nobody owns.

use std::time::Duration;

use async_trait::async_trait;
use steadfast_core::id::{Epoch, SessionKey, Timestamp};

use crate::error::{ReadError, WriteError};

/// A timer that fired and is not acknowledged fires again after about this long.
pub const TIMER_SILENCE: Duration = Duration::from_secs(10);

/// A timer that is due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Due {
    /// Which session.
    pub session: SessionKey,
    /// Generation of the owner that set it: of a lower epoch than the log's, it means nothing.
    pub epoch: Epoch,
}

/// Durable timers, one for each session and epoch, set before a release.
///
/// A timer fires at least once, not before its time, and is gone only after `acknowledge`. It is
/// never cancelled: a due timer of an older epoch is acknowledged without activation.
#[async_trait]
pub trait Timers: Send + Sync {
    /// Sets the timer of this session and epoch; set again, it is moved. A firing that is on its
    /// way may still come.
    async fn set(
        &self,
        session: &SessionKey,
        epoch: Epoch,
        at: Timestamp,
    ) -> Result<(), WriteError>;

    /// Waits for a timer that is due. One that is not acknowledged comes again after
    /// [`TIMER_SILENCE`]. Dropped before it answers, it takes nothing that does not come again.
    async fn next(&self) -> Result<Due, ReadError>;

    /// Forgets a timer that `next` gave. Repeating it is harmless. Need not wait for the disk: after
    /// a crash the timer may fire once more.
    async fn acknowledge(&self, due: &Due) -> Result<(), WriteError>;
}
