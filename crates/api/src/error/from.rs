//! What the parts below say, as what a client is told.

use steadfast_core::event::Rejection;
use steadfast_runtime::sessions::{AdmitError, ForkError, LoadError, RepairError};
use steadfast_store::error::ReadError;

use super::{ErrorCode, Problem};

impl From<Rejection> for ErrorCode {
    fn from(reason: Rejection) -> Self {
        match reason {
            Rejection::SessionNotFound => Self::SessionNotFound,
            Rejection::SessionExists => Self::SessionExists,
            Rejection::SessionDeleting => Self::SessionDeleting,
            Rejection::CommandConflict => Self::CommandConflict,
            Rejection::MessageTooOld => Self::MessageTooOld,
            Rejection::TurnRunning => Self::TurnRunning,
            Rejection::TurnNotRunning => Self::TurnNotRunning,
            Rejection::QueueFull => Self::QueueFull,
            Rejection::MessageNotFound => Self::MessageNotFound,
            Rejection::MessageNotQueued => Self::MessageNotQueued,
            Rejection::MessageCompacted => Self::MessageCompacted,
            Rejection::ApprovalNotFound => Self::ApprovalNotFound,
            Rejection::ApprovalDecided => Self::ApprovalDecided,
            Rejection::CallNotFound => Self::CallNotFound,
            Rejection::CallNotWaiting => Self::CallNotWaiting,
            Rejection::NothingToCompact => Self::NothingToCompact,
            Rejection::CallBlocked => Self::CallBlocked,
        }
    }
}

/// What a refusal means for who asked, in words.
pub(crate) fn rejection_detail(reason: Rejection) -> &'static str {
    match reason {
        Rejection::SessionNotFound => {
            "there is no such session; make it with PUT, or name an `agent` with the message"
        }
        Rejection::SessionExists => {
            "a session of this id stands with another agent, metadata or tags; nothing changed"
        }
        Rejection::SessionDeleting => {
            "the session is being removed; its id is free again when that is done"
        }
        Rejection::CommandConflict => "this id was used before with another content; take a new id",
        Rejection::MessageTooOld => {
            "the id is from before the time that ids are remembered; take a new id"
        }
        Rejection::TurnRunning => {
            "a turn runs; wait for its end, or choose `queue`, `steer` or `interrupt`"
        }
        Rejection::TurnNotRunning => "the named turn does not run; nothing changed",
        Rejection::QueueFull => "the session's queue is full; try again when a turn has ended",
        Rejection::MessageNotFound => "the session knows no such message",
        Rejection::MessageNotQueued => "the message no longer waits; cancel its turn instead",
        Rejection::MessageCompacted => {
            "the message is part of a summary and can no longer be replaced"
        }
        Rejection::ApprovalNotFound => "the session asked for no such approval",
        Rejection::ApprovalDecided => {
            "the approval was answered otherwise, has expired, or its turn is over"
        }
        Rejection::CallNotFound => "the session has no such call",
        Rejection::CallNotWaiting => "the call does not wait for a result from here",
        Rejection::CallBlocked => {
            "a call of the same step is under way, and one of the two must run alone: repeat this \
             under another id when it has ended"
        }
        Rejection::NothingToCompact => {
            "the history is too short to be summarised, or is being summarised now"
        }
    }
}

impl From<Rejection> for Problem {
    fn from(reason: Rejection) -> Self {
        Self::new(reason.into(), rejection_detail(reason))
    }
}

fn store_unavailable(internal: &str) -> Problem {
    tracing::warn!(error = internal, "store unavailable");
    Problem::new(
        ErrorCode::StoreUnavailable,
        "the store cannot be read or written now, and the node's log says why; nothing happened, try again",
    )
}

impl From<AdmitError> for Problem {
    fn from(error: AdmitError) -> Self {
        match error {
            AdmitError::Unavailable(internal) => store_unavailable(&internal),
            AdmitError::StoreFull(internal) => {
                tracing::warn!(error = internal, "store full");
                Self::new(
                    ErrorCode::StoreFull,
                    "the store has no room left, so nothing happened; the session stays as it is and can be read. \
                     Make room where the node keeps its data, then send the same request again; nothing needs a restart",
                )
            }
            AdmitError::OutcomeUnknown(internal) => {
                tracing::warn!(error = internal, "outcome of a command unknown");
                Self::new(
                    ErrorCode::OutcomeUnknown,
                    "it may or may not have been done; send the same request under the same id again",
                )
            }
            AdmitError::MailboxFull => Self::new(
                ErrorCode::MailboxFull,
                "too many requests wait for this session; nothing happened, try again later",
            ),
            AdmitError::Quarantined(reason) => quarantined(&reason),
            AdmitError::AgentUnknown(agent) => Self::new(
                ErrorCode::AgentNotConfigured,
                format!("agent {agent} is not configured on this node; nothing happened"),
            ),
            AdmitError::TooLarge(reason) => Self::new(
                ErrorCode::CommandTooLarge,
                format!("{reason}; nothing happened"),
            ),
            AdmitError::Draining => Self::new(
                ErrorCode::Draining,
                "the node lets go of its sessions; nothing happened, try another node or later",
            ),
        }
    }
}

impl From<LoadError> for Problem {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Unavailable(internal) => store_unavailable(&internal),
            LoadError::Quarantined(reason) => quarantined(&reason),
            LoadError::NewerVersion(internal) => {
                tracing::warn!(error = internal, "session of a newer release");
                Self::new(
                    ErrorCode::SessionNewer,
                    "a newer release wrote this session; ask a node that runs it",
                )
            }
        }
    }
}

impl From<ForkError> for Problem {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::SourceNotFound => Self::new(
                ErrorCode::SessionNotFound,
                "there is no session of this id to fork",
            ),
            ForkError::NotAtTurnEnd(seq) => Self::new(
                ErrorCode::ForkNotPossible,
                format!("event {seq} is not the end of a turn; nothing happened"),
            ),
            ForkError::Load(error) => error.into(),
            ForkError::Admit(error) => error.into(),
        }
    }
}

impl From<RepairError> for Problem {
    fn from(error: RepairError) -> Self {
        match error {
            RepairError::NotQuarantined => Self::new(
                ErrorCode::SessionNotQuarantined,
                "the session's log can be read, so there is nothing to repair; nothing happened",
            ),
            RepairError::Changed => Self::new(
                ErrorCode::SessionChanged,
                "somebody wrote to the session's log meanwhile; nothing happened, look again",
            ),
            RepairError::BeyondRepair(detail) => {
                tracing::error!(error = detail, "session beyond repair");
                Self::new(
                    ErrorCode::SessionBeyondRepair,
                    "the store cannot say where the session's log ends, so nothing can be added to it; \
                     nothing happened. Restore the node's file from a copy; `steadfast doctor` says more",
                )
            }
            RepairError::Load(error) => error.into(),
            RepairError::Admit(error) => error.into(),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unavailable(internal) => store_unavailable(&internal),
            ReadError::Corrupt(internal) => {
                tracing::error!(error = internal, "store corrupt");
                Self::new(
                    ErrorCode::Internal,
                    "the store holds something that cannot be right; see the node's log",
                )
            }
        }
    }
}

fn quarantined(reason: &str) -> Problem {
    Problem::new(
        ErrorCode::SessionQuarantined,
        format!(
            "the session's log cannot be read to its end, and nothing runs until an operator repairs it \
             (`steadfast sessions repair`): {reason}"
        ),
    )
}
