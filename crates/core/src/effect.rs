//! Work that a state wants done. An effect is its own stable id; details stand in the session.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{CallId, Epoch, Timestamp, TurnId};

/// One piece of work, named so that no two pieces ever share a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Effect {
    /// Ask the model for its next reply.
    ModelCall {
        /// Ownership generation that asks: a reply to an earlier owner is not a reply to this one.
        epoch: Epoch,
        /// The turn.
        turn: TurnId,
        /// Step of the turn, from 1.
        step: u32,
        /// Attempt of the step, from 1.
        attempt: u32,
    },
    /// Ask the model for a summary of the history.
    Compaction {
        /// Ownership generation that asks.
        epoch: Epoch,
        /// Number of the compaction in its session, from 1.
        number: u32,
        /// Attempt, from 1.
        attempt: u32,
    },
    /// Reserve a slot in the tool's pool.
    SlotReservation {
        /// For this call.
        call: CallId,
    },
    /// Run a tool in this process.
    ToolCall {
        /// The call.
        call: CallId,
        /// Attempt, from 1.
        attempt: u32,
    },
    /// Ask a `never` tool whether an attempt happened.
    Check {
        /// The call.
        call: CallId,
        /// The attempt asked about.
        attempt: u32,
    },
    /// Put a job into the tool queue.
    Job {
        /// The call.
        call: CallId,
        /// Attempt, from 1.
        attempt: u32,
    },
    /// Deliver a notice of the outbox.
    Notice {
        /// Its number.
        number: u64,
    },
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModelCall {
                epoch,
                turn,
                step,
                attempt,
            } => {
                write!(f, "model-call {epoch}/{turn}/{step}/{attempt}")
            }
            Self::Compaction {
                epoch,
                number,
                attempt,
            } => {
                write!(f, "compaction {epoch}/{number}/{attempt}")
            }
            Self::SlotReservation { call } => write!(f, "slot {call}"),
            Self::ToolCall { call, attempt } => write!(f, "tool-call {call}/{attempt}"),
            Self::Check { call, attempt } => write!(f, "check {call}/{attempt}"),
            Self::Job { call, attempt } => write!(f, "job {call}/{attempt}"),
            Self::Notice { number } => write!(f, "notice {number}"),
        }
    }
}

/// When a session must be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Wake {
    /// Something outstanding needs an owner.
    Now,
    /// A deadline comes.
    At(Timestamp),
    /// Only when somebody asks something of it.
    Never,
}
