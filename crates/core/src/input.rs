//! All that can wake a session, and what the runtime found out beforehand.

use serde::{Deserialize, Serialize};

use crate::call::Question;
use crate::command::{Command, Digest};
use crate::content::{CallOutput, ModelReply, Stored, ToolOutput, Usage};
use crate::effect::Effect;
use crate::event::Event;
use crate::id::{AgentName, CallId, CommandId, Epoch, NodeId, Seq, Timestamp};
use crate::offered::OfferedTools;

/// One thing that a session must decide about.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A node takes the session over.
    Activate(Activate),
    /// A client asks for something.
    Command {
        /// What.
        command: Command,
        /// It came through the mailbox, so its client holds a receipt: a refusal is recorded.
        receipted: bool,
    },
    /// A model call ended with a complete reply; one triage per call, in order.
    ModelReplied {
        /// The model call that ended.
        effect: Effect,
        /// What it said.
        reply: ModelReply,
        /// What the runtime found out about each call.
        triage: Vec<CallTriage>,
        /// Why its text is not the answer that the turn must give: it does not fit the schema that
        /// was asked for. Only read when the reply asks for no call.
        unfit: Option<String>,
    },
    /// A model call, or a compaction, ended without a complete reply.
    ModelFailed {
        /// The model call or compaction that ended.
        effect: Effect,
        /// Why.
        failure: ModelFailure,
    },
    /// A compaction ended with a summary.
    CompactionDone {
        /// The compaction that ended.
        effect: Effect,
        /// The summary.
        summary: Stored<String>,
        /// What it cost.
        usage: Usage,
    },
    /// A tool call ended, or its answer came late.
    CallFinished {
        /// Which call.
        call: CallId,
        /// Which attempt of it.
        attempt: u32,
        /// How.
        outcome: CallOutcome,
    },
    /// The check of a `never` tool answered.
    CheckAnswered {
        /// Which call.
        call: CallId,
        /// Which attempt was asked about.
        attempt: u32,
        /// What it said.
        answer: CheckAnswer,
    },
    /// A pool slot for a waiting call is reserved.
    SlotReady {
        /// Which call.
        call: CallId,
    },
    /// A job stands in the tool queue.
    JobQueued {
        /// Which call.
        call: CallId,
        /// Which attempt.
        attempt: u32,
    },
    /// The tools that come from elsewhere are others than those that the model was last offered; said
    /// in place of a model call, which then begins anew.
    ToolsListed {
        /// The model call that did not begin.
        effect: Effect,
        /// What it would be offered.
        tools: OfferedTools,
        /// What the model is told of the difference.
        note: Option<String>,
    },
    /// A notice of the outbox was delivered.
    NoticeDelivered {
        /// Its number in the outbox.
        notice: u64,
        /// The claim of the job that it cancels was withdrawn before any worker had it.
        withdrawn: bool,
    },
    /// A notice of the outbox is given up.
    NoticeDropped {
        /// Its number in the outbox.
        notice: u64,
        /// Why.
        detail: String,
    },
    /// An operator ends the quarantine of a session whose log cannot be read to its end.
    Repair(Box<Repair>),
    /// A deadline may have passed.
    TimerFired,
    /// The owner lets go.
    Release,
}

/// The end of a quarantine. The session that decides about it is the fold of what can be read in one
/// piece, except that its numbers stand above all that may have been handed out.
#[derive(Debug, Clone, PartialEq)]
pub struct Repair {
    /// The operator's command.
    pub command: CommandId,
    /// Of which content.
    pub digest: Digest,
    /// Who does it.
    pub node: NodeId,
    /// Above every epoch of the log.
    pub epoch: Epoch,
    /// Number of the last event that counts.
    pub after: Seq,
    /// What is wrong with the log: stable code.
    pub code: String,
    /// The same for people.
    pub detail: String,
    /// What of the part that no longer counts can still be read, in order.
    pub lost: Vec<LostEvent>,
}

/// An event of a part of the log that no longer counts.
#[derive(Debug, Clone, PartialEq)]
pub struct LostEvent {
    /// Generation of its writer.
    pub epoch: Epoch,
    /// Its number there.
    pub seq: Seq,
    /// The event.
    pub event: Event,
}

/// A take-over, with today's view of the calls that are open.
#[derive(Debug, Clone, PartialEq)]
pub struct Activate {
    /// The new owner.
    pub node: NodeId,
    /// At least this epoch; the session takes the larger of it and its last plus one.
    pub epoch_min: Epoch,
    /// The agent's limits as configured today.
    pub policy: Policy,
    /// Today's rule of each open call; an open call that is not named has lost its tool.
    pub open_calls: Vec<(CallId, RuleToday)>,
}

/// A tool's rule as configured today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleToday {
    /// May it be repeated.
    pub rule: ReplayRule,
    /// Has it a check.
    pub has_check: bool,
}

/// What may be done with a call whose outcome was lost. Ordered from lenient to strict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ReplayRule {
    /// It may run again.
    Safe,
    /// It may run again under the same key; the tool dedupes.
    Keyed,
    /// It must not run again.
    #[default]
    Never,
}

/// Which effects may run ahead of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Durability {
    /// Model calls and `safe` tool calls may start while the Record that asks for them is in flight.
    #[default]
    On,
    /// Everything waits for its Record.
    Strict,
}

/// What happens with a call that is in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum InDoubtPolicy {
    /// The model is told that it may or may not have happened.
    #[default]
    TellModel,
    /// The turn waits for an operator, a policy or a late answer.
    Wait,
}

/// Where a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Place {
    /// In the owner's process; it dies with it.
    #[default]
    Local,
    /// As a job in the tool queue; it outlives the owner.
    Remote,
    /// At the client, who sends the result.
    Client,
}

/// What the runtime found out about a call before `decide` sees it; recorded with the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallTriage {
    /// Whether it may run.
    pub gate: Gate,
    /// May it be repeated.
    pub rule: ReplayRule,
    /// Where it runs.
    pub place: Place,
    /// What happens when its outcome is lost.
    pub in_doubt: InDoubtPolicy,
    /// Whether the tool can be asked what happened.
    pub has_check: bool,
    /// No other call of the session runs beside it.
    pub exclusive: bool,
    /// From the start of an attempt until its outcome must be there, in milliseconds.
    pub deadline_ms: u64,
    /// Attempts of a `safe` or `keyed` call that fails in a way worth repeating.
    pub attempts_max: u32,
    /// A pool slot is reserved: it may start at once.
    pub slot: bool,
    /// The agent that answers it, in a session of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Gate {
    /// It may.
    Open,
    /// A person decides first.
    Approval {
        /// Until when, in milliseconds from now; `None`: for ever.
        expires_in_ms: Option<u64>,
    },
    /// It may not: unknown tool, invalid input, denied by policy. The model gets this output.
    Refused {
        /// What the model is told.
        output: ToolOutput,
    },
}

/// How a tool call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum CallOutcome {
    /// The tool answered, with a result or with an error of its own.
    Done(CallOutput),
    /// The attempt did not reach the tool, or the tool says to try again; it certainly did nothing.
    Retry {
        /// Shown when no attempt is left.
        detail: String,
        /// The tool's own wish, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The tool asks somebody before it goes on, and does nothing until it is answered.
    Asks(Question),
    /// Nobody knows whether it happened.
    Unknown {
        /// Why, for the log.
        detail: String,
    },
}

/// What the check of a `never` tool says.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckAnswer {
    /// It happened, with this result.
    Done(CallOutput),
    /// It did not happen and will not under a lower epoch.
    NotDone,
    /// Its job was withdrawn before any worker had it: it did nothing, and never will.
    Withdrawn,
    /// It cannot tell, or cannot be reached.
    Unknown,
}

/// Why a model call ended without a complete reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// What can be done about it.
    pub class: FailureClass,
    /// Stable code, for example `rate_limited`.
    pub code: String,
    /// For people.
    pub message: String,
}

/// What can be done about a failed model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FailureClass {
    /// Try again later: 408, 409, 429, 5xx, 529, broken stream, silence.
    Retryable {
        /// The provider's wish, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The history does not fit the model's window.
    ContextOverflow,
    /// Trying again cannot help: bad request, bad key.
    Fatal,
}

/// An agent's limits, recorded at each activation so that the log explains what was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Policy {
    /// Which effects may run ahead of the log.
    pub durability: Durability,
    /// Model calls in one turn, at most.
    pub steps_max: u32,
    /// Attempts of one model call, at most.
    pub model_attempts_max: u32,
    /// Messages waiting for a turn, at most.
    pub queue_max: u32,
    /// Tool calls in one turn, at most; `None`: no limit.
    pub turn_calls_max: Option<u64>,
    /// Tokens of one turn, at most; `None`: no limit.
    pub turn_tokens_max: Option<u64>,
    /// Tokens of the session, at most; `None`: no limit.
    pub session_tokens_max: Option<u64>,
    /// Duration of one turn in milliseconds, at most; `None`: no limit.
    pub turn_wall_ms_max: Option<u64>,
    /// Estimated tokens of the history above which it is compacted; `None`: only on request.
    pub compact_at_tokens: Option<u64>,
    /// A step in which one of these tools gave a result that is no error is the turn's last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_after_tools: Vec<String>,
    /// What the outside is told of turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<ReportKind>,
}

/// What the outside may be told of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ReportKind {
    /// One came to wait for somebody.
    Waiting,
    /// One ended.
    Ended,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            durability: Durability::On,
            steps_max: 100,
            model_attempts_max: 5,
            queue_max: 64,
            turn_calls_max: None,
            turn_tokens_max: None,
            session_tokens_max: None,
            turn_wall_ms_max: None,
            compact_at_tokens: None,
            stop_after_tools: Vec::new(),
            reports: Vec::new(),
        }
    }
}

/// The instant at which an input is decided: the clock's, but never before the last entry's.
pub fn instant(clock: Timestamp, last_entry: Timestamp) -> Timestamp {
    clock.max(last_entry)
}
