//! The tool queue port: calls that remote workers run.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;

use crate::error::{ReadError, WriteError};

/// A delivery that is neither finished, given back nor kept alive comes again after this long,
/// unless the store was set up with another time.
pub const JOB_SILENCE: Duration = Duration::from_secs(30);

/// A job as it stands in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Tool that runs it, as the catalog names it.
    pub tool: String,
    /// Session that asked.
    pub session: SessionKey,
    /// The call within its session.
    pub call: String,
    /// How often a committed check said that it did not happen: rises only then.
    pub run: u32,
    /// What the worker is told: see `steadfast_protocol::tool`.
    pub bytes: Bytes,
}

/// A delivery of a job to one worker.
#[async_trait]
pub trait JobDelivery: Send + Sync {
    /// The job.
    fn job(&self) -> &Job;
    /// From 1; a guess when the store lost count.
    fn deliveries(&self) -> u64;
    /// Says that the worker is still at it.
    async fn keep_alive(&self) -> Result<(), WriteError>;
    /// Removes the job. Not fenced: also works after it was delivered to another.
    async fn finish(&self) -> Result<(), WriteError>;
    /// Gives it back, to be delivered after `delay`.
    async fn give_back(&self, delay: Duration) -> Result<(), WriteError>;
}

/// The tool queue.
///
/// 1. `put` answers `Ok` only when the job is durable. Putting the same call and run again while it
///    stands in the queue leaves one job; later it may come twice.
/// 2. Each job is delivered to some worker of its tool at least once, and again after silence.
/// 3. After [`WriteError::Unknown`] the job may stand there now, later, or never.
/// 4. `remove` takes a job back; one that is being worked on is not stopped by it.
/// 5. `cancel` tells the workers that listen that a call is not wanted any more: at most once, a hint.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Puts a job into the queue.
    async fn put(&self, job: Job) -> Result<(), WriteError>;
    /// Takes a job out of the queue. Repeating it is harmless.
    async fn remove(&self, job: &Job) -> Result<(), WriteError>;
    /// Waits for a job of one of these tools. Dropped before it answers, it takes nothing that does
    /// not come again.
    async fn next(&self, tools: &[String]) -> Result<Arc<dyn JobDelivery>, ReadError>;
    /// Tells workers that a call is not wanted.
    async fn cancel(&self, session: &SessionKey, call: &str) -> Result<(), WriteError>;
    /// The calls that are not wanted any more, from now on.
    async fn cancelled(&self) -> Result<BoxStream<'static, (SessionKey, String)>, ReadError>;
}
