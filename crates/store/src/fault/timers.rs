//! Faults of the timers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use steadfast_core::id::{Epoch, SessionKey, Timestamp};

use super::line::Line;
use super::operation::{Fault, Operation};
use crate::error::{ReadError, WriteError};
use crate::local::lock;
use crate::stores::Stores;
use crate::timers::{Due, Timers};

pub(super) struct FaultyTimers {
    inner: Arc<dyn Timers>,
    line: Arc<Line>,
    /// Timers that come once more; as many as were drawn since the last call, so at most one for
    /// each caller.
    repeated: Mutex<VecDeque<Due>>,
}

impl FaultyTimers {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.timers),
            line: Arc::clone(line),
            repeated: Mutex::default(),
        }
    }
}

#[async_trait]
impl Timers for FaultyTimers {
    async fn set(
        &self,
        session: &SessionKey,
        epoch: Epoch,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write(Operation::SetTimer, async move {
                inner.set(&session, epoch, at).await
            })
            .await
    }

    async fn next(&self) -> Result<Due, ReadError> {
        let next = async {
            let repeated = lock(&self.repeated).pop_front();
            match repeated {
                Some(due) => Ok(due),
                None => self.inner.next().await,
            }
        };
        let (due, fault) = self.line.wait(Operation::NextTimer, next).await?;
        if fault == Some(Fault::Repeat) {
            lock(&self.repeated).push_back(due.clone());
        }
        Ok(due)
    }

    async fn acknowledge(&self, due: &Due) -> Result<(), WriteError> {
        let (inner, due) = (Arc::clone(&self.inner), due.clone());
        self.line
            .write_loosely(Operation::AcknowledgeTimer, async move {
                inner.acknowledge(&due).await
            })
            .await
    }
}
