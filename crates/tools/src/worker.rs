//! What runs a tool.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use steadfast_core::call::Question;
use steadfast_core::content::ToolOutput;
use steadfast_core::id::{CallId, Epoch, Fence, SessionKey, Timestamp, TurnId};
use steadfast_core::input::{CallOutcome, CheckAnswer};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// One attempt of a call: all that a tool is told.
#[derive(Debug, Clone)]
pub struct Job {
    /// The session.
    pub session: SessionKey,
    /// The turn.
    pub turn: TurnId,
    /// The call; [`Job::key`] is what the tool dedupes by.
    pub call: CallId,
    /// Attempt, from 1.
    pub attempt: u32,
    /// Ownership generation of the session.
    pub epoch: Epoch,
    /// Name of the tool.
    pub tool: String,
    /// Checked arguments.
    pub input: Value,
    /// When the outcome must be there.
    pub deadline: Timestamp,
    /// Milliseconds left until then at the start of the attempt.
    pub remaining_ms: u64,
    /// What the tool asked in an earlier attempt, and the answer.
    pub answered: Option<Answered>,
    /// Reason of a person's yes, if one was asked.
    pub approval_reason: Option<String>,
    /// The message's own metadata, as stored.
    pub metadata: Value,
    /// W3C `traceparent` of the call's span, if tracing is on.
    pub traceparent: Option<String>,
}

impl Job {
    /// The key of the call, the same at every attempt: `<tenant>/<session>/<call>`.
    pub fn key(&self) -> String {
        self.call.key(&self.session)
    }

    /// Where the attempt stands among those of its call. Of a check, that of the attempt asked about:
    /// who answers [`CheckAnswer::NotDone`] refuses attempts up to this fence from then on.
    pub fn fence(&self) -> Fence {
        Fence {
            epoch: self.epoch,
            attempt: self.attempt,
        }
    }
}

/// A question of an earlier attempt with its answer.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The attempt that asked.
    pub attempt: u32,
    /// What it asked.
    pub question: Question,
    /// What was answered.
    pub answer: ToolOutput,
}

/// What a running tool may do besides answering.
#[derive(Debug, Clone)]
pub struct ToolIo {
    /// Cancelled when the outcome is no longer wanted; a tool has 5 s to stop by itself.
    pub cancelled: CancellationToken,
    /// Preliminary results for the client's stream; a full channel drops them.
    pub progress: mpsc::Sender<Value>,
    /// Its place in a pool.
    pub place: PoolPlace,
}

impl ToolIo {
    /// What a tool may do that has no place in any pool.
    pub fn new(cancelled: CancellationToken, progress: mpsc::Sender<Value>) -> Self {
        Self {
            cancelled,
            progress,
            place: PoolPlace::default(),
        }
    }
}

/// A place in a pool, given back when the last holder drops it. Whoever goes on with a call after
/// its future was dropped keeps it, so that the pool's bound holds for what really runs.
#[derive(Clone, Default)]
pub struct PoolPlace {
    _kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl PoolPlace {
    /// A place that is given back by dropping this value.
    pub fn keeping(value: impl Any + Send + Sync) -> Self {
        Self {
            _kept: Some(Arc::new(value)),
        }
    }
}

impl fmt::Debug for PoolPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PoolPlace")
    }
}

/// What carries a tool's calls: each has a pool of its own on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Executor {
    /// Asynchronous code in this process, of which nobody can be sure that it never blocks.
    Function,
    /// Blocking code in this process, each call on a thread of its own.
    Blocking,
    /// A request to another service.
    Http,
    /// A process.
    Command,
    /// A request to an MCP server.
    Mcp,
}

impl Executor {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Function,
        Self::Blocking,
        Self::Http,
        Self::Command,
        Self::Mcp,
    ];
}

impl fmt::Display for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Function => "function",
            Self::Blocking => "blocking",
            Self::Http => "http",
            Self::Command => "command",
            Self::Mcp => "mcp",
        })
    }
}

/// Runs a tool's calls.
///
/// `run` is one attempt. It answers [`CallOutcome::Done`] only with a complete answer of the tool,
/// [`CallOutcome::Retry`] only when the tool certainly did nothing, [`CallOutcome::Asks`] when it
/// waits for somebody's answer, and otherwise [`CallOutcome::Unknown`]. A panic counts as `Unknown`. Dropping the future is a hard cancel.
#[async_trait]
pub trait ToolWorker: Send + Sync {
    /// In which pool its calls run.
    fn executor(&self) -> Executor {
        Executor::Function
    }

    /// Runs one attempt.
    async fn run(&self, job: Job, io: ToolIo) -> CallOutcome;

    /// Asks whether an attempt of a `never` call happened. With [`CheckAnswer::NotDone`] the tool
    /// promises that no attempt up to [`Job::fence`] will.
    async fn check(&self, job: Job) -> CheckAnswer {
        let _ = job;
        CheckAnswer::Unknown
    }
}
