//! What events say of calls and turns: what was asked for, how it ended, what the outside is told.

use serde::{Deserialize, Serialize};

use crate::child::ParentCall;
use crate::content::{CallInput, Finish, Stored};
use crate::id::{AgentName, CallId, MessageId, Seq, Timestamp, TurnId};
use crate::input::CallTriage;

/// A call with what was found out about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedCall {
    /// The provider's own id.
    pub provider_call_id: String,
    /// Name of the tool.
    pub tool: String,
    /// Arguments.
    pub input: Stored<CallInput>,
    /// What the runtime found out.
    pub triage: CallTriage,
}

/// A call of a part of the log that no longer counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostCall {
    /// Its id.
    pub call: CallId,
    /// Name of the tool.
    pub tool: String,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TurnOutcome {
    /// The model answered.
    Completed {
        /// Why it stopped.
        finish: Finish,
    },
    /// It could not be done.
    Failed {
        /// Stable code: `model_unavailable`, `max_steps`, `budget`, `recovery_exhausted`, ...
        code: String,
        /// For people.
        message: String,
    },
    /// Somebody ended it, or withdrew it from the queue.
    Cancelled,
    /// An edited message took its place.
    Superseded,
    /// It was to join one certain turn, which ended before.
    Rejected,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Settlement {
    /// The tool, the client or an operator gave an outcome.
    Done,
    /// Unknown tool, bad input or denied by policy: it never ran.
    Refused,
    /// A person said no: it never ran.
    Denied,
    /// Nobody answered the approval in time: it never ran.
    Expired,
    /// A new message came instead of an answer: it never ran.
    Superseded,
    /// The turn was cancelled before it could have done anything.
    Cancelled,
    /// No attempt reached the tool: it did nothing.
    Unreachable,
    /// A tool that may be repeated gave no outcome in any attempt: it may have happened.
    Unknown,
    /// A tool that must not be repeated gave no outcome: it may have happened.
    InDoubt,
    /// The tool is no longer configured; the call had not started.
    ToolGone,
}

/// What must reach the outside. Delivered at least once; the receiver dedupes by the call's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Notice {
    /// A remote job is no longer wanted.
    CancelJob {
        /// Which call.
        call: CallId,
        /// Which attempt.
        attempt: u32,
        /// Name of its tool.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tool: String,
        /// Every worker claims this attempt before it runs it, and no attempt before it can have
        /// acted: whoever withdraws the claim first knows that the call did nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        under_claim: bool,
        /// The agent that answers it: what is cancelled is the turn of its session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<AgentName>,
    },
    /// How a turn ended that a call of another session asked for: the answer to that call.
    AnswerCall {
        /// The call.
        parent: ParentCall,
        /// The turn.
        turn: TurnId,
        /// How it ended.
        outcome: TurnOutcome,
        /// Number of the last item of the transcript that is the turn's: the answer, or the results
        /// of the tools that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_item: Option<Seq>,
    },
    /// What became of a turn, for whoever listens. Its turn and its number name it for ever.
    ReportTurn {
        /// Which turn.
        turn: TurnId,
        /// The message that asked for it.
        message: MessageId,
        /// When.
        at: Timestamp,
        /// What.
        report: TurnReport,
    },
}

/// What became of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum TurnReport {
    /// It came to wait for somebody.
    Waiting {
        /// Calls that wait.
        count: u32,
        /// The first of them.
        calls: Vec<WaitingCall>,
    },
    /// It ended.
    Ended {
        /// How.
        outcome: TurnOutcome,
    },
}

/// A call that waits for somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingCall {
    /// Which.
    pub call: CallId,
    /// Name of its tool.
    pub tool: String,
    /// For what.
    #[serde(rename = "for")]
    pub kind: WaitKind,
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WaitKind {
    /// A person's decision.
    Approval,
    /// The client's result.
    ClientResult,
    /// An answer to what its tool asks.
    Input,
    /// Somebody to say whether it happened.
    InDoubt,
}
