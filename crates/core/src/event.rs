//! Facts. Past participles, immutable; new kinds and optional fields may be added, none changed.

mod outcome;
mod verdict;

use serde::{Deserialize, Serialize};

use crate::call::Question;
use crate::command::{Digest, ForkOrigin, MessageOptions, NewSession};
use crate::content::{CallOutput, Content, Finish, ReplyPart, Stored, ToolOutput, Usage};
use crate::effect::Wake;
use crate::id::{ApprovalId, CallId, CommandId, Epoch, MessageId, NodeId, Seq, Timestamp, TurnId};
use crate::input::{CallTriage, Policy, ReplayRule};
use crate::offered::OfferedTools;

pub use outcome::{
    LostCall, Notice, RecordedCall, Settlement, TurnOutcome, TurnReport, WaitKind, WaitingCall,
};
pub use verdict::{Rejection, Verdict};

/// One fact of a session's log. Its number is its position, its time is its entry's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Event {
    /// A node took the session over. From here on every earlier owner's append conflicts.
    Activated {
        /// The owner.
        node: NodeId,
        /// Its generation.
        epoch: Epoch,
        /// The agent's limits from now on.
        policy: Policy,
    },
    /// The owner let go; nothing of the session runs.
    Released {
        /// When to look again.
        wake: Wake,
    },
    /// The session was made.
    SessionCreated {
        /// What it is.
        new: NewSession,
    },
    /// The session starts with a copy of another's transcript.
    TranscriptForked {
        /// Of which, up to where.
        origin: ForkOrigin,
    },
    /// The session is being removed.
    DeletionStarted,
    /// The session is gone; numbers and epochs go on from here if it is made again.
    SessionDeleted,
    /// An operator ended the quarantine of a log that could not be read to its end. What stands in
    /// the log after `after` and before this event is kept and no longer counts.
    LogRepaired {
        /// Number of the last event before this one that counts.
        after: Seq,
        /// What was wrong: stable code.
        code: String,
        /// The same for people.
        detail: String,
        /// Calls that the part which no longer counts had asked for, and whose outcome is not known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<LostCall>,
    },
    /// The turn of an accepted message stood in a part of the log that no longer counts.
    MessageLost {
        /// The message.
        message: MessageId,
        /// The turn that it was accepted as.
        turn: TurnId,
        /// How the turn ended, as far as that part could still be read.
        outcome: TurnOutcome,
    },
    /// A command got its answer.
    CommandSettled {
        /// Which.
        command: CommandId,
        /// Of which content.
        digest: Digest,
        /// The answer.
        verdict: Verdict,
    },
    /// A message was accepted; this event's number is the turn's id.
    TurnQueued {
        /// The message.
        message: MessageId,
        /// What it says.
        content: Content,
        /// How it is handled.
        options: MessageOptions,
    },
    /// A queued message joined the running turn instead of making its own.
    MessageJoined {
        /// The turn it would have been.
        queued: TurnId,
        /// The turn it joined.
        into: TurnId,
    },
    /// A turn began.
    TurnStarted {
        /// Which.
        turn: TurnId,
    },
    /// A turn ended, or a queued one will never start.
    TurnEnded {
        /// Which.
        turn: TurnId,
        /// How.
        outcome: TurnOutcome,
    },
    /// An owner died during the turn's own work.
    TurnCrashed {
        /// Which turn.
        turn: TurnId,
        /// Crashes since the last settled call, this one included.
        in_row: u32,
        /// Crashes in this turn, this one included.
        in_turn: u32,
        /// Nothing of the turn runs before this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold_until: Option<Timestamp>,
    },
    /// The wait after a crash is over.
    HoldLifted {
        /// Which turn.
        turn: TurnId,
    },
    /// A model call is wanted.
    StepStarted {
        /// In which turn.
        turn: TurnId,
        /// Its number in the turn, from 1.
        step: u32,
    },
    /// A model call failed and will be repeated, or did so and is repeated now (`retry_at` absent).
    ModelCallFailed {
        /// In which turn.
        turn: TurnId,
        /// In which step.
        step: u32,
        /// Which attempt failed.
        attempt: u32,
        /// Stable code.
        code: String,
        /// For people.
        message: String,
        /// When the next attempt starts.
        retry_at: Timestamp,
    },
    /// The wait before the next attempt of a model call is over.
    ModelCallRetried {
        /// In which turn.
        turn: TurnId,
        /// In which step.
        step: u32,
        /// The attempt that starts.
        attempt: u32,
    },
    /// From here on the model is offered these tools that come from elsewhere.
    ToolsOffered {
        /// In which turn.
        turn: TurnId,
        /// All of them.
        offered: OfferedTools,
        /// What the model is told of the difference, if it was offered others before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A model replied; this event's number is part of its calls' ids.
    ModelReplied {
        /// In which turn.
        turn: TurnId,
        /// In which step.
        step: u32,
        /// Which wire can read the `native` parts.
        wire: String,
        /// The model as the provider names it.
        model: String,
        /// What it said, in order.
        parts: Vec<Stored<ReplyPart>>,
        /// What it asks for.
        calls: Vec<RecordedCall>,
        /// Why it stopped.
        finish: Finish,
        /// What it cost.
        usage: Usage,
    },
    /// The model answered, and what it said does not fit the schema that the answer must fit. It is
    /// told so and asked again.
    AnswerRefused {
        /// In which turn.
        turn: TurnId,
        /// In which step.
        step: u32,
        /// What does not fit.
        detail: String,
    },
    /// An approval is asked for.
    ApprovalRequested {
        /// Its id.
        approval: ApprovalId,
        /// Of which input: a digest of it.
        input_digest: Digest,
        /// When it counts as denied.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    },
    /// An approval was answered.
    ApprovalDecided {
        /// Which.
        approval: ApprovalId,
        /// Yes or no.
        approved: bool,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The call's triage at the time of the decision, when it may now run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        triage: Option<CallTriage>,
    },
    /// An attempt of a call may run from here on.
    CallStarted {
        /// Which call.
        call: CallId,
        /// Which attempt, from 1.
        attempt: u32,
        /// When its outcome must be there.
        deadline: Timestamp,
    },
    /// The job of a remote call stands in the tool queue.
    JobQueued {
        /// Which call.
        call: CallId,
        /// Which attempt.
        attempt: u32,
    },
    /// Today's configuration is stricter than the rule recorded with the call.
    CallRuleTightened {
        /// Which call.
        call: CallId,
        /// The rule from now on.
        rule: ReplayRule,
    },
    /// An attempt failed and will be repeated under the same key.
    CallRetryScheduled {
        /// Which call.
        call: CallId,
        /// Which attempt failed.
        attempt: u32,
        /// Why.
        detail: String,
        /// It gave no outcome, so it may have taken effect.
        #[serde(default)]
        may_have_acted: bool,
        /// When the next attempt starts.
        retry_at: Timestamp,
    },
    /// An attempt ended with a question, and waits for the answer.
    InputRequested {
        /// Which call.
        call: CallId,
        /// Which attempt.
        attempt: u32,
        /// What it asks.
        question: Question,
    },
    /// The question was answered: the call goes on with the answer.
    InputGiven {
        /// Which call.
        call: CallId,
        /// The answer.
        answer: Stored<ToolOutput>,
    },
    /// The tool is asked whether an attempt happened.
    CheckRequested {
        /// Which call.
        call: CallId,
        /// Which attempt.
        attempt: u32,
    },
    /// Nobody knows whether the call happened, and the turn waits to be told.
    CallDoubted {
        /// Which call.
        call: CallId,
    },
    /// A call ended. Exactly once.
    CallSettled {
        /// Which call.
        call: CallId,
        /// How.
        settlement: Settlement,
        /// What the tool said, or what the model is told instead.
        output: CallOutput,
    },
    /// The true answer of a call that was settled without one came after all. At most once.
    CallResolved {
        /// Which call.
        call: CallId,
        /// The answer.
        output: CallOutput,
    },
    /// A summary of the history is wanted.
    CompactionStarted {
        /// Its number in the session, from 1.
        number: u32,
        /// It stands for all up to this event.
        through: Seq,
    },
    /// A compaction failed and will be repeated.
    CompactionFailed {
        /// Which.
        number: u32,
        /// Which attempt.
        attempt: u32,
        /// Stable code.
        code: String,
        /// For people.
        message: String,
        /// When the next attempt starts; `None`: given up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// The wait before the next attempt of a compaction is over.
    CompactionRetried {
        /// Which.
        number: u32,
        /// The attempt that starts.
        attempt: u32,
    },
    /// The history up to `through` is now this summary; the log keeps it all.
    TranscriptCompacted {
        /// Which compaction.
        number: u32,
        /// The summary stands for all up to this event.
        through: Seq,
        /// The summary.
        summary: Stored<String>,
        /// What it cost.
        usage: Usage,
    },
    /// The transcript goes on from before this event.
    TranscriptRewound {
        /// The first event that no longer counts.
        to: Seq,
        /// What the rewound part did or may have done outside, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Something must reach the outside even after the turn is over.
    NoticePosted {
        /// Its number.
        number: u64,
        /// What.
        notice: Notice,
    },
    /// A notice reached the outside.
    NoticeDelivered {
        /// Which.
        number: u64,
    },
    /// A notice never reached the outside, and is given up.
    NoticeDropped {
        /// Which.
        number: u64,
        /// Why.
        detail: String,
    },
}
