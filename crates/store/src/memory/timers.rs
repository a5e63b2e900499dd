//! Timers in memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use steadfast_core::id::{Epoch, SessionKey, Timestamp};

use crate::clock::Clock;
use crate::error::{ReadError, WriteError};
use crate::local::TimerQueue;
use crate::timers::{Due, Timers};

/// Timers of all sessions in memory.
pub struct MemoryTimers(TimerQueue);

impl MemoryTimers {
    /// No timers; one that fired and meets silence fires again after `silence`.
    pub fn new(clock: Arc<dyn Clock>, silence: Duration) -> Self {
        Self(TimerQueue::new(clock, silence))
    }
}

#[async_trait]
impl Timers for MemoryTimers {
    async fn set(
        &self,
        session: &SessionKey,
        epoch: Epoch,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        self.0.set(session, epoch, at);
        Ok(())
    }

    async fn next(&self) -> Result<Due, ReadError> {
        Ok(self.0.next().await)
    }

    async fn acknowledge(&self, due: &Due) -> Result<(), WriteError> {
        self.0.acknowledged(due);
        Ok(())
    }
}
