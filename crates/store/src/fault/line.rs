//! The way of a call through its faults.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::operation::{Fault, Operation};
use super::plan::FaultPlan;
use crate::error::{ReadError, WriteError};
use crate::local::lock;

/// One layer's connection: its plan, and the writes that are under way.
pub(super) struct Line {
    pub(super) plan: Arc<FaultPlan>,
    /// Ended with the layer; nothing waits for them but [`Line::settle`].
    writes: Mutex<JoinSet<()>>,
}

impl Line {
    pub(super) fn new(plan: Arc<FaultPlan>) -> Self {
        Self {
            plan,
            writes: Mutex::default(),
        }
    }

    /// Decides about a write and takes it there.
    pub(super) async fn write<T, E>(
        &self,
        operation: Operation,
        run: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
    {
        let decision = self.plan.decide(operation).await;
        self.write_with(decision.fault, decision.latency, run).await
    }

    /// Decides about a write that need not wait for the disk, and takes it there or forgets it.
    pub(super) async fn write_loosely(
        &self,
        operation: Operation,
        run: impl Future<Output = Result<(), WriteError>> + Send + 'static,
    ) -> Result<(), WriteError> {
        let decision = self.plan.decide(operation).await;
        if decision.fault == Some(Fault::Forgotten) {
            take(decision.latency).await;
            return Ok(());
        }
        self.write_with(decision.fault, decision.latency, run).await
    }

    /// Takes a write there under a fault.
    pub(super) async fn write_with<T, E>(
        &self,
        fault: Option<Fault>,
        latency: Duration,
        run: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
    {
        match fault {
            Some(Fault::Unavailable) => {
                take(latency).await;
                Err(WriteError::Unavailable("no connection".into()).into())
            }
            Some(Fault::Refused) => {
                take(latency).await;
                Err(WriteError::Full("the disk is full".into()).into())
            }
            Some(Fault::LostRequest) => {
                take(latency).await;
                Err(WriteError::Unknown("no answer".into()).into())
            }
            Some(Fault::Ghost { delay }) => {
                let plan = Arc::clone(&self.plan);
                self.begin(async move {
                    plan.until_open().await;
                    take(delay).await;
                    // Whatever becomes of a ghost, its caller has stopped waiting.
                    let _outcome = run.await;
                });
                take(latency).await;
                Err(WriteError::Unknown("no answer".into()).into())
            }
            Some(Fault::LostAck) => {
                // Done or not, its answer does not come.
                let _outcome = self.under_way(latency, run).await;
                Err(WriteError::Unknown("no answer".into()).into())
            }
            Some(
                Fault::Conflict
                | Fault::InFlight
                | Fault::Stale { .. }
                | Fault::Forgotten
                | Fault::Repeat
                | Fault::Corrupt
                | Fault::Lost
                | Fault::NoResponders,
            )
            | None => self.under_way(latency, run).await,
        }
    }

    /// Lets a write take its time, there and back; it goes on when its caller does not wait.
    async fn under_way<T, E>(
        &self,
        latency: Duration,
        run: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<WriteError> + Send + 'static,
    {
        if latency.is_zero() {
            return run.await;
        }
        let (answer, answered) = oneshot::channel();
        self.begin(async move {
            take(latency / 2).await;
            // A caller that is gone needs no answer.
            let _gone = answer.send(run.await);
        });
        let lost = |_| WriteError::Unknown("no answer".into());
        let outcome = answered.await.map_err(lost)?;
        take(latency / 2).await;
        outcome
    }

    fn begin(&self, write: impl Future<Output = ()> + Send + 'static) {
        let mut writes = lock(&self.writes);
        while writes.try_join_next().is_some() {}
        writes.spawn(write);
    }

    /// Waits until no write is under way.
    pub(super) async fn settle(&self) {
        loop {
            let mut writes = std::mem::take(&mut *lock(&self.writes));
            if writes.is_empty() {
                return;
            }
            while writes.join_next().await.is_some() {}
        }
    }

    /// Decides about a read; gives the fault that its port must play.
    pub(super) async fn read(&self, operation: Operation) -> Result<Option<Fault>, ReadError> {
        let decision = self.plan.decide(operation).await;
        take(decision.latency).await;
        match decision.fault {
            Some(Fault::Unavailable) => Err(ReadError::Unavailable("no connection".into())),
            fault => Ok(fault),
        }
    }

    /// Waits for something, unless the connection is cut meanwhile.
    pub(super) async fn wait<T>(
        &self,
        operation: Operation,
        next: impl Future<Output = Result<T, ReadError>>,
    ) -> Result<(T, Option<Fault>), ReadError> {
        let fault = self.read(operation).await?;
        tokio::select! {
            biased;
            () = self.plan.until_cut() => Err(ReadError::Unavailable("connection lost".into())),
            next = next => {
                let next = next?;
                self.plan.until_open().await;
                Ok((next, fault))
            }
        }
    }
}

/// Lets time pass; none at all where there is none, so that a quiet layer changes no schedule.
async fn take(duration: Duration) {
    if !duration.is_zero() {
        sleep(duration).await;
    }
}
