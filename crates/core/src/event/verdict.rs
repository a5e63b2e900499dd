//! Answers to commands.

use serde::{Deserialize, Serialize};

use crate::id::TurnId;

/// The answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Verdict {
    /// The message is accepted as this turn.
    Accepted {
        /// Its turn, or the turn it would have been when it joins another.
        turn: TurnId,
    },
    /// It is done.
    Done,
    /// It is not done, and nothing changed.
    Rejected {
        /// Why.
        reason: Rejection,
    },
}

/// Why a command was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Rejection {
    /// No such session.
    SessionNotFound,
    /// The session exists with another content.
    SessionExists,
    /// The session is being removed.
    SessionDeleting,
    /// The command id was used for something else.
    CommandConflict,
    /// The command id is older than what is remembered.
    MessageTooOld,
    /// A turn runs and the message does not want to wait.
    TurnRunning,
    /// The named turn does not run.
    TurnNotRunning,
    /// Too many messages wait.
    QueueFull,
    /// No such message.
    MessageNotFound,
    /// The message is no longer queued.
    MessageNotQueued,
    /// The message to be replaced was compacted away.
    MessageCompacted,
    /// No such approval.
    ApprovalNotFound,
    /// The approval was answered otherwise, or is over.
    ApprovalDecided,
    /// No such call.
    CallNotFound,
    /// The call does not wait for a result from there.
    CallNotWaiting,
    /// There is nothing to compact, or it is being done.
    NothingToCompact,
    /// An exclusive call stands in the way of the call.
    CallBlocked,
}

impl Rejection {
    /// Stable code for the outside.
    pub fn code(self) -> &'static str {
        match self {
            Self::SessionNotFound => "session_not_found",
            Self::SessionExists => "session_exists",
            Self::SessionDeleting => "session_deleting",
            Self::CommandConflict => "command_conflict",
            Self::MessageTooOld => "message_too_old",
            Self::TurnRunning => "turn_running",
            Self::TurnNotRunning => "turn_not_running",
            Self::QueueFull => "queue_full",
            Self::MessageNotFound => "message_not_found",
            Self::MessageNotQueued => "message_not_queued",
            Self::MessageCompacted => "message_compacted",
            Self::ApprovalNotFound => "approval_not_found",
            Self::ApprovalDecided => "approval_decided",
            Self::CallNotFound => "call_not_found",
            Self::CallNotWaiting => "call_not_waiting",
            Self::NothingToCompact => "nothing_to_compact",
            Self::CallBlocked => "call_blocked",
        }
    }
}
