//! Faults of the tool queue and its claims.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::{CallId, SessionKey};
use steadfast_protocol::tool::Addresses;

use super::line::Line;
use super::operation::{Fault, Operation};
use crate::claims::{Claimed, Claims};
use crate::error::{ReadError, WriteError};
use crate::jobs::{Job, JobDelivery, JobName, Jobs};
use crate::local::lock;
use crate::stores::ToolQueue;

/// The tool queue behind a faulty connection.
pub(super) fn tool_queue(inner: &ToolQueue, line: &Arc<Line>) -> ToolQueue {
    ToolQueue {
        jobs: Arc::new(FaultyJobs {
            inner: Arc::clone(&inner.jobs),
            line: Arc::clone(line),
            repeated: Mutex::default(),
        }),
        claims: Arc::new(FaultyClaims {
            inner: Arc::clone(&inner.claims),
            line: Arc::clone(line),
        }),
    }
}

struct FaultyJobs {
    inner: Arc<dyn Jobs>,
    line: Arc<Line>,
    /// Deliveries that come once more, while the first is at large; as many as were drawn since the
    /// last call.
    repeated: Mutex<VecDeque<Arc<dyn JobDelivery>>>,
}

impl FaultyJobs {
    fn again(&self, tools: &[String]) -> Option<Arc<dyn JobDelivery>> {
        let mut repeated = lock(&self.repeated);
        let of = |delivery: &Arc<dyn JobDelivery>| tools.contains(&delivery.job().name.tool);
        let position = repeated.iter().position(of)?;
        repeated.remove(position)
    }
}

#[async_trait]
impl Jobs for FaultyJobs {
    async fn put(&self, job: Job) -> Result<(), WriteError> {
        let inner = Arc::clone(&self.inner);
        self.line
            .write(Operation::PutJob, async move { inner.put(job).await })
            .await
    }

    async fn remove(&self, job: &JobName) -> Result<(), WriteError> {
        let (inner, job) = (Arc::clone(&self.inner), job.clone());
        self.line
            .write(
                Operation::RemoveJob,
                async move { inner.remove(&job).await },
            )
            .await
    }

    async fn next(&self, tools: &[String]) -> Result<Arc<dyn JobDelivery>, ReadError> {
        let next = async {
            match self.again(tools) {
                Some(delivery) => Ok(delivery),
                None => self.inner.next(tools).await,
            }
        };
        let (delivery, fault) = self.line.wait(Operation::NextJob, next).await?;
        if fault == Some(Fault::Repeat) {
            lock(&self.repeated).push_back(Arc::clone(&delivery));
        }
        Ok(Arc::new(FaultyDelivery {
            inner: delivery,
            line: Arc::clone(&self.line),
        }))
    }

    async fn cancel(&self, session: &SessionKey, call: CallId) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write_loosely(Operation::CancelJob, async move {
                inner.cancel(&session, call).await
            })
            .await
    }

    async fn cancelled(&self) -> Result<BoxStream<'static, (SessionKey, CallId)>, ReadError> {
        self.line.read(Operation::ListenForJobs).await?;
        let plan = Arc::clone(&self.line.plan);
        let news = self.inner.cancelled().await?;
        let heard = news.filter(move |_| std::future::ready(!plan.is_silent()));
        Ok(heard.boxed())
    }

    async fn progress(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write_loosely(Operation::TellProgress, async move {
                inner.progress(&session, bytes).await
            })
            .await
    }

    async fn progressed(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, Bytes>, ReadError> {
        self.line.read(Operation::ListenForJobs).await?;
        let plan = Arc::clone(&self.line.plan);
        let news = self.inner.progressed(session).await?;
        let heard = news.filter(move |_| std::future::ready(!plan.is_silent()));
        Ok(heard.boxed())
    }

    fn addresses(&self, session: &SessionKey, call: CallId) -> Option<Addresses> {
        self.inner.addresses(session, call)
    }
}

struct FaultyDelivery {
    inner: Arc<dyn JobDelivery>,
    line: Arc<Line>,
}

#[async_trait]
impl JobDelivery for FaultyDelivery {
    fn job(&self) -> &Job {
        self.inner.job()
    }

    fn deliveries(&self) -> u64 {
        self.inner.deliveries()
    }

    async fn keep_alive(&self) -> Result<(), WriteError> {
        let inner = Arc::clone(&self.inner);
        self.line
            .write_loosely(
                Operation::KeepJobAlive,
                async move { inner.keep_alive().await },
            )
            .await
    }

    async fn finish(&self) -> Result<(), WriteError> {
        let inner = Arc::clone(&self.inner);
        self.line
            .write_loosely(Operation::FinishJob, async move { inner.finish().await })
            .await
    }

    async fn give_back(&self, delay: Duration) -> Result<(), WriteError> {
        let inner = Arc::clone(&self.inner);
        self.line
            .write(Operation::GiveJobBack, async move {
                inner.give_back(delay).await
            })
            .await
    }
}

struct FaultyClaims {
    inner: Arc<dyn Claims>,
    line: Arc<Line>,
}

#[async_trait]
impl Claims for FaultyClaims {
    async fn claim(&self, key: &str, holder: &str) -> Result<Claimed, WriteError> {
        let inner = Arc::clone(&self.inner);
        let (key, holder) = (key.to_owned(), holder.to_owned());
        self.line
            .write(
                Operation::Claim,
                async move { inner.claim(&key, &holder).await },
            )
            .await
    }
}
