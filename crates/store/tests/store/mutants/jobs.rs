//! Tool queues and claims that break a rule.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use steadfast_core::id::{CallId, SessionKey};
use steadfast_protocol::tool::Addresses;
use steadfast_store::ToolQueue;
use steadfast_store::claims::{Claimed, Claims};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::jobs::{JOB_DEDUPE, Job, JobDelivery, JobName, Jobs};
use steadfast_store::memory;
use steadfast_store::suite::{Subject, claims, jobs};

use super::{broken, fails};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bug {
    None,
    ForgetsWhatWasPut,
    TakesWhatItDelivers,
    RemovesNothing,
    IgnoresTools,
    GivesClaimsToAll,
}

struct Broken {
    inner: ToolQueue,
    bug: Bug,
}

#[async_trait]
impl Jobs for Broken {
    async fn put(&self, mut job: Job) -> Result<(), WriteError> {
        if self.bug == Bug::ForgetsWhatWasPut {
            // A second copy, under another name.
            job.name.id.run += 1_000;
            self.inner.jobs.put(job.clone()).await?;
            job.name.id.run -= 1_000;
        }
        self.inner.jobs.put(job).await
    }

    async fn remove(&self, job: &JobName) -> Result<(), WriteError> {
        match self.bug {
            Bug::RemovesNothing => Ok(()),
            _ => self.inner.jobs.remove(job).await,
        }
    }

    async fn next(&self, tools: &[String]) -> Result<Arc<dyn JobDelivery>, ReadError> {
        let all = ["mail", "mail-2", "print"].map(str::to_owned);
        let delivery = match self.bug {
            Bug::IgnoresTools => self.inner.jobs.next(&all).await?,
            _ => self.inner.jobs.next(tools).await?,
        };
        if self.bug == Bug::TakesWhatItDelivers {
            delivery.finish().await.unwrap();
        }
        Ok(delivery)
    }

    async fn cancel(&self, session: &SessionKey, call: CallId) -> Result<(), WriteError> {
        self.inner.jobs.cancel(session, call).await
    }

    async fn cancelled(&self) -> Result<BoxStream<'static, (SessionKey, CallId)>, ReadError> {
        self.inner.jobs.cancelled().await
    }

    async fn progress(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        self.inner.jobs.progress(session, bytes).await
    }

    async fn progressed(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, Bytes>, ReadError> {
        self.inner.jobs.progressed(session).await
    }

    fn addresses(&self, session: &SessionKey, call: CallId) -> Option<Addresses> {
        self.inner.jobs.addresses(session, call)
    }
}

#[async_trait]
impl Claims for Broken {
    async fn claim(&self, key: &str, holder: &str) -> Result<Claimed, WriteError> {
        match self.bug {
            Bug::GivesClaimsToAll => Ok(Claimed::Mine),
            _ => self.inner.claims.claim(key, holder).await,
        }
    }
}

fn with(bug: Bug) -> Subject {
    broken(|stores| {
        let inner = memory::tool_queue(Duration::from_secs(10), JOB_DEDUPE);
        let broken = Arc::new(Broken { inner, bug });
        stores.tool_queue = Some(ToolQueue {
            jobs: broken.clone(),
            claims: broken,
        });
    })
}

#[tokio::test(start_paused = true)]
async fn broken_tool_queues_are_found() {
    let twice = jobs::a_job_put_twice_stands_once;
    fails("twice", twice(with(Bug::ForgetsWhatWasPut))).await;
    let silence = jobs::a_job_that_meets_silence_comes_again;
    fails("silence", silence(with(Bug::TakesWhatItDelivers))).await;
    let removed = jobs::a_removed_job_is_gone;
    fails("removed", removed(with(Bug::RemovesNothing))).await;
    let own = jobs::a_job_goes_to_one_worker_of_its_tool;
    fails("tools", own(with(Bug::IgnoresTools))).await;
    assert!(silence(with(Bug::None)).await.is_ok());
    let one = claims::one_of_many_holders_gets_a_claim;
    fails("all", one(with(Bug::GivesClaimsToAll))).await;
    assert!(one(with(Bug::None)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_job_comes_once_more_when_it_is_put_after_the_dedupe_time() {
    let queue = memory::tool_queue(Duration::from_secs(30), Duration::from_secs(2));
    let job = Job {
        name: JobName {
            tool: "mail".into(),
            session: crate::samples::session("s"),
            id: "1-2-0_1".parse().unwrap(),
        },
        bytes: Bytes::from_static(b"{}"),
    };
    let tools = ["mail".to_owned()];
    queue.jobs.put(job.clone()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    queue.jobs.put(job.clone()).await.unwrap();
    for _ in 0..2 {
        let delivery = queue.jobs.next(&tools).await.unwrap();
        assert_eq!((delivery.job(), delivery.deliveries()), (&job, 1));
    }
}
