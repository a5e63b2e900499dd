//! Timers that sleep, or of which a session has one only, whoever set it last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use steadfast_core::id::{Epoch, SessionKey, Timestamp};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::timers::{Due, Timers};

use crate::simulate::setup::Mistake;

pub(super) struct MistakenTimers {
    inner: Arc<dyn Timers>,
    mistake: Mistake,
    /// The epoch whose timer each session has.
    set: Mutex<BTreeMap<SessionKey, Epoch>>,
}

impl MistakenTimers {
    pub(super) fn new(inner: Arc<dyn Timers>, mistake: Mistake) -> Self {
        Self {
            inner,
            mistake,
            set: Mutex::default(),
        }
    }
}

#[async_trait]
impl Timers for MistakenTimers {
    async fn set(
        &self,
        session: &SessionKey,
        epoch: Epoch,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        if self.mistake == Mistake::TimersAsleep {
            return Ok(());
        }
        let replaced = {
            let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
            set.insert(session.clone(), epoch)
        };
        if let Some(replaced) = replaced {
            let session = session.clone();
            let due = Due {
                session,
                epoch: replaced,
            };
            self.inner.acknowledge(&due).await?;
        }
        self.inner.set(session, epoch, at).await
    }

    async fn next(&self) -> Result<Due, ReadError> {
        self.inner.next().await
    }

    async fn acknowledge(&self, due: &Due) -> Result<(), WriteError> {
        self.inner.acknowledge(due).await
    }
}
