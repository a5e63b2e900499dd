//! One tool call of the open step.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::{CallInput, CallOutput, Stored, ToolOutput};
use crate::event::Settlement;
use crate::id::{ApprovalId, CallId, Timestamp};
use crate::input::{CallTriage, Place, ReplayRule};

/// A call and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its id.
    pub id: CallId,
    /// The provider's own id.
    pub provider_call_id: String,
    /// Name of the tool.
    pub tool: String,
    /// Arguments.
    pub input: Arc<Stored<CallInput>>,
    /// What was found out about it; the rule may become stricter at a take-over.
    pub triage: CallTriage,
    /// Reason of a person's yes, for the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_reason: Option<String>,
    /// An earlier attempt gave no outcome, so the call may have taken effect.
    #[serde(default)]
    pub may_have_acted: bool,
    /// What the tool asked last, with the answer once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Box<AskedQuestion>>,
    /// Since when it stands where it stands.
    pub since: Timestamp,
    /// Where it stands.
    pub state: CallState,
}

/// What a tool asks somebody before it goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Question {
    /// What it asks, by the tool's own name for it: an object.
    pub requests: Value,
    /// What it wants to be given back with the answer, unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What was wrong with the last answer, if it is asked again for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A question of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedQuestion {
    /// Which attempt asked.
    pub attempt: u32,
    /// What.
    pub question: Question,
    /// What was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Stored<ToolOutput>>,
}

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CallState {
    /// Its triage says it may run; nothing was decided yet.
    Proposed,
    /// A person decides.
    AwaitingApproval {
        /// The approval.
        approval: ApprovalId,
        /// When it counts as denied.
        expires_at: Option<Timestamp>,
    },
    /// It may run once a slot of the tool's pool is free, and no exclusive call runs beside it.
    AwaitingSlot,
    /// The client sends the result.
    AwaitingClient,
    /// The tool asked something: the client sends the answer, and then it goes on.
    AwaitingInput,
    /// An attempt may be running.
    Started {
        /// Which, from 1.
        attempt: u32,
        /// When its outcome must be there.
        deadline: Timestamp,
    },
    /// A remote attempt stands in the tool queue.
    Queued {
        /// Which, from 1.
        attempt: u32,
        /// When its outcome must be there.
        deadline: Timestamp,
    },
    /// An attempt failed; the next waits.
    Backoff {
        /// Which attempt failed.
        attempt: u32,
        /// When the next starts.
        retry_at: Timestamp,
        /// When the outcome of the next must be there.
        deadline: Timestamp,
    },
    /// The tool is asked whether an attempt happened.
    Checking {
        /// Which attempt.
        attempt: u32,
    },
    /// Nobody knows, and the turn waits to be told.
    InDoubt {
        /// Which attempt was the last.
        attempt: u32,
    },
    /// It is over.
    Settled {
        /// How.
        settlement: Settlement,
        /// What the model is told.
        output: CallOutput,
    },
}

impl Call {
    /// Whether it is over.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, CallState::Settled { .. })
    }

    /// Whether it waits for somebody outside who may take any time.
    pub fn waits_for_people(&self) -> bool {
        matches!(
            self.state,
            CallState::AwaitingApproval { .. }
                | CallState::AwaitingClient
                | CallState::AwaitingInput
        )
    }

    /// Whether an attempt may have done something outside.
    pub fn has_started(&self) -> bool {
        match self.state {
            CallState::Started { .. }
            | CallState::Queued { .. }
            | CallState::Backoff { .. }
            | CallState::AwaitingInput
            | CallState::Checking { .. }
            | CallState::InDoubt { .. } => true,
            // It asked something first, and waits to go on.
            CallState::AwaitingSlot => self.question.is_some(),
            CallState::Proposed
            | CallState::AwaitingApproval { .. }
            | CallState::AwaitingClient
            | CallState::Settled { .. } => false,
        }
    }

    /// The attempt that may be running, or was the last to run.
    pub fn attempt(&self) -> Option<u32> {
        match self.state {
            CallState::Started { attempt, .. }
            | CallState::Queued { attempt, .. }
            | CallState::Backoff { attempt, .. }
            | CallState::Checking { attempt }
            | CallState::InDoubt { attempt } => Some(attempt),
            CallState::Proposed
            | CallState::AwaitingApproval { .. }
            | CallState::AwaitingSlot
            | CallState::AwaitingInput
            | CallState::AwaitingClient
            | CallState::Settled { .. } => None,
        }
    }

    /// Whether a withdrawn claim of the attempt that stands in the tool queue proves that the call
    /// did nothing.
    pub fn runs_under_claim(&self) -> bool {
        self.triage.place == Place::Remote
            && self.triage.rule == ReplayRule::Never
            && !self.may_have_acted
    }

    /// Whether an attempt occupies the tool now.
    pub fn occupies(&self) -> bool {
        matches!(
            self.state,
            CallState::Started { .. } | CallState::Queued { .. } | CallState::Checking { .. }
        )
    }
}
