//! The tool queue port: calls that remote workers run.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use steadfast_core::id::{CallId, InvalidId, SessionKey};
use steadfast_protocol::tool::Addresses;

use crate::error::{ReadError, WriteError};

/// A delivery that is neither finished, given back nor kept alive comes again after this long,
/// unless the store was set up with another time.
pub const JOB_SILENCE: Duration = Duration::from_secs(30);
/// The same job put twice within this time stands once, unless the store was set up with another
/// time. After it a job may stand, and be delivered, twice.
pub const JOB_DEDUPE: Duration = Duration::from_secs(120);
/// A job, at most.
pub const JOB_BYTES_MAX: usize = 512 * 1024;
/// A job is given back for this long at most; longer delays are cut.
pub const JOB_DELAY_MAX: Duration = Duration::from_secs(60);
/// Cancels and words of progress that wait for one listener, at most; further ones are lost.
pub const JOB_NEWS_MAX: usize = 1_024;

/// What a worker is asked to do about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobKind {
    /// Run it.
    Run,
    /// Say whether a run of it happened.
    Check,
}

/// Which attempt of which call a job is about: names it within its session, also in subjects.
///
/// As text `<call>_<run>`, or `<call>_<run>_check`: letters, digits, `-` and `_` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// The call.
    pub call: CallId,
    /// Its attempt. Of a `never` call it rises only when a committed check said that the run before
    /// did not happen.
    pub run: u32,
    /// What is asked.
    pub kind: JobKind,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, run, kind } = self;
        match kind {
            JobKind::Run => write!(f, "{call}_{run}"),
            JobKind::Check => write!(f, "{call}_{run}_check"),
        }
    }
}

impl FromStr for JobId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        const INVALID: InvalidId = InvalidId {
            kind: "job id",
            rule: "<call>_<run> or <call>_<run>_check",
        };
        let (rest, kind) = match text.strip_suffix("_check") {
            Some(rest) => (rest, JobKind::Check),
            None => (text, JobKind::Run),
        };
        let (call, run) = rest.split_once('_').ok_or(INVALID)?;
        let id = Self {
            call: call.parse()?,
            run: run.parse().map_err(|_| INVALID)?,
            kind,
        };
        // One spelling only.
        if id.to_string() == text {
            Ok(id)
        } else {
            Err(INVALID)
        }
    }
}

/// Where a job stands in the queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName {
    /// Tool that runs it: 1 to 64 of `[A-Za-z0-9_-]`.
    pub tool: String,
    /// Session that asked.
    pub session: SessionKey,
    /// What it is about.
    pub id: JobId,
}

impl JobName {
    /// The key under which a `never` run is claimed: `<tenant>.<session>.<call>.<run>`.
    pub fn claim_key(&self) -> String {
        claim_key(&self.session, self.id.call, self.id.run)
    }
}

/// The key under which a run of a `never` call is claimed: `<tenant>.<session>.<call>.<run>`.
pub fn claim_key(session: &SessionKey, call: CallId, run: u32) -> String {
    format!("{}.{}.{call}.{run}", session.tenant, session.session)
}

/// A job as it stands in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Where it stands.
    pub name: JobName,
    /// What the worker is told: see `steadfast_protocol::tool`.
    pub bytes: Bytes,
}

/// A delivery of a job to one worker.
///
/// None of these is fenced: they also work, and then concern the newest delivery, after the job was
/// delivered to another.
#[async_trait]
pub trait JobDelivery: Send + Sync {
    /// The job.
    fn job(&self) -> &Job;
    /// From 1; a guess when the store lost count.
    fn deliveries(&self) -> u64;
    /// Says that the worker is still at it.
    async fn keep_alive(&self) -> Result<(), WriteError>;
    /// Removes the job. Repeating it is harmless.
    async fn finish(&self) -> Result<(), WriteError>;
    /// Gives it back, to be delivered after `delay`.
    async fn give_back(&self, delay: Duration) -> Result<(), WriteError>;
}

/// The tool queue.
///
/// 1. `put` answers `Ok` only when the job is durable. The same job put again within
///    [`JOB_DEDUPE`] changes nothing, also when it was finished or removed meanwhile; later it may
///    stand there, and be delivered, once more.
/// 2. Each job is delivered to some worker of its tool at least once, and again after silence.
///    Deliveries of one job to several workers at the same time can always happen.
/// 3. After [`WriteError::Unknown`] the job may stand there now, later, or never: also long after
///    it was removed.
/// 4. `remove` takes a job back; one that is being worked on is not stopped by it.
/// 5. `cancel` tells the workers that listen that a call is not wanted any more, `progress` tells
///    the session's owner how far a call is: each at most once, or never.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Puts a job into the queue.
    async fn put(&self, job: Job) -> Result<(), WriteError>;
    /// Takes a job out of the queue. Repeating it is harmless.
    async fn remove(&self, job: &JobName) -> Result<(), WriteError>;
    /// Waits for a job of one of these tools. Dropped before it answers, it takes nothing that does
    /// not come again.
    async fn next(&self, tools: &[String]) -> Result<Arc<dyn JobDelivery>, ReadError>;
    /// Tells workers that a call is not wanted.
    async fn cancel(&self, session: &SessionKey, call: CallId) -> Result<(), WriteError>;
    /// The calls that are not wanted any more, from now on, until dropped.
    async fn cancelled(&self) -> Result<BoxStream<'static, (SessionKey, CallId)>, ReadError>;
    /// Tells the session's owner how far a call is: bytes of `steadfast_protocol::tool::Progress`.
    async fn progress(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError>;
    /// What workers say of this session's calls, from now on, until dropped.
    async fn progressed(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, Bytes>, ReadError>;
    /// Where workers outside of this program send their words about a call, which for an answer is
    /// the session's mailbox, lane [`Control`](crate::mailbox::Lane); `None`: there are none.
    fn addresses(&self, session: &SessionKey, call: CallId) -> Option<Addresses>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_id_has_one_spelling() {
        for text in ["1-2-0_1", "17-403-2_3_check"] {
            let id: JobId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
        }
        for text in [
            "",
            "1-2-0",
            "1-2-0_01",
            "1-2-0_1_",
            "1-2-0_1_check_check",
            "1-2_1",
        ] {
            assert!(text.parse::<JobId>().is_err(), "{text} was taken");
        }
    }
}
