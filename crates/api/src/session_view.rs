//! A session as clients see it.

use serde::Serialize;
use serde_json::{Value, json};
use steadfast_core::event::TurnOutcome;
use steadfast_core::session::{Ownership, Session, Turn, TurnPhase};
use steadfast_core::waiting;
use steadfast_core::why::Waiting;
use steadfast_store::directory::Status;
use utoipa::ToSchema;

use crate::backend::session_not_found;
use crate::error::Problem;
use crate::messages::view::{Failure, State};

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// Its id.
    pub(crate) id: String,
    /// What it does.
    pub(crate) status: StatusView,
    /// Whose agent answers.
    pub(crate) agent: String,
    /// The application's own data, as given.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub(crate) metadata: Value,
    /// Its tags.
    pub(crate) tags: Vec<String>,
    /// Number of its last event.
    pub(crate) seq: u64,
    /// Its ownership generation.
    pub(crate) epoch: u64,
    /// The node that has it in memory, if one has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The turn that runs or waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<TurnView>,
    /// Answers that somebody owes: of `type` `approval`, `client_result`, `input` or
    /// `in_doubt`.
    #[schema(value_type = Vec<Object>)]
    pub(crate) waiting: Vec<Waiting>,
    /// Messages that wait for their turn.
    pub(crate) queue_length: usize,
    /// What all its model calls cost: `input_tokens`, `output_tokens`, `cache_read_tokens`,
    /// `cache_write_tokens`, `reasoning_tokens`.
    #[schema(value_type = Object)]
    pub(crate) usage: Value,
    /// The last turn that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_turn: Option<EndedTurnView>,
    /// The session whose transcript it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forked_from: Option<ForkedFrom>,
    /// The call of another session that it was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<ParentView>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub(crate) created_at: u64,
    /// When it last changed.
    pub(crate) updated_at: u64,
    /// Why nothing runs until it is repaired. All else is then shown as of the last event that can
    /// be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quarantine: Option<String>,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SessionStatus)]
pub(crate) enum StatusView {
    /// No turn.
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for somebody.
    Waiting,
    /// Its log cannot be read.
    Quarantined,
}

impl From<Status> for StatusView {
    fn from(status: Status) -> Self {
        match status {
            Status::Idle => Self::Idle,
            Status::Running => Self::Running,
            Status::Waiting => Self::Waiting,
            Status::Quarantined => Self::Quarantined,
        }
    }
}

/// A turn that runs or waits.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Turn)]
pub(crate) struct TurnView {
    /// Its id.
    pub(crate) id: u64,
    /// The message that asked for it.
    pub(crate) message_id: String,
    /// When it began.
    pub(crate) started_at: u64,
    /// Model calls so far.
    pub(crate) step: u32,
    /// What it does: `ready`, `calling` or `backoff` a model, `tools`, `answered`.
    #[schema(value_type = Object)]
    pub(crate) phase: TurnPhase,
    /// What its model calls cost.
    #[schema(value_type = Object)]
    pub(crate) usage: Value,
}

/// A turn that ended.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = EndedTurn)]
pub(crate) struct EndedTurnView {
    /// Its id.
    pub(crate) id: u64,
    /// The message that asked for it.
    pub(crate) message_id: String,
    /// How it ended.
    pub(crate) state: State,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
    /// When.
    pub(crate) at: u64,
}

/// The call that a session was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ParentCall)]
pub(crate) struct ParentView {
    /// The session whose agent asked.
    pub(crate) session: String,
    /// Its call.
    pub(crate) call_id: String,
}

/// Where a session's transcript was copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ForkedFrom {
    /// The session.
    pub(crate) session: String,
    /// Up to and including this event.
    pub(crate) at_seq: u64,
}

impl SessionView {
    /// Shows a session that exists.
    pub(crate) fn of(session: &Session) -> Result<Self, Problem> {
        let profile = session.profile().ok_or_else(session_not_found)?;
        let waiting = waiting(session);
        let owner = match &session.ownership {
            Ownership::Owned { node } => Some(node.to_string()),
            Ownership::Never | Ownership::Released { .. } => None,
        };
        let forked_from = profile.forked_from.as_ref();
        Ok(Self {
            id: session.key.session.to_string(),
            status: status(session, &waiting),
            agent: profile.agent.to_string(),
            metadata: (*profile.metadata).clone(),
            tags: (*profile.tags).clone(),
            seq: session.seq.0,
            epoch: session.epoch.0,
            owner,
            turn: session.turn.as_ref().map(turn_view),
            waiting,
            queue_length: session.queue.len(),
            usage: json!(session.usage),
            last_turn: session.last_turn.as_ref().map(|last| {
                let (state, error) = outcome(&last.outcome);
                EndedTurnView {
                    id: last.id.0.0,
                    message_id: last.message.to_string(),
                    state,
                    error,
                    at: last.at.0,
                }
            }),
            forked_from: forked_from.map(|(from, at_seq)| ForkedFrom {
                session: from.session.to_string(),
                at_seq: at_seq.0,
            }),
            parent: profile.parent.as_ref().map(|parent| ParentView {
                session: parent.session.to_string(),
                call_id: parent.call.to_string(),
            }),
            created_at: profile.created_at.0,
            updated_at: session.at.0,
            quarantine: None,
        })
    }

    /// Says that the log goes on and cannot be read.
    pub(crate) fn quarantined(mut self, why: String) -> Self {
        self.status = StatusView::Quarantined;
        self.quarantine = Some(why);
        self
    }
}

fn status(session: &Session, waiting: &[Waiting]) -> StatusView {
    if session.turn.is_none() && session.queue.is_empty() {
        StatusView::Idle
    } else if waiting.is_empty() {
        StatusView::Running
    } else {
        StatusView::Waiting
    }
}

fn turn_view(turn: &Turn) -> TurnView {
    TurnView {
        id: turn.id.0.0,
        message_id: turn.message.to_string(),
        started_at: turn.started_at.0,
        step: turn.step,
        phase: turn.phase,
        usage: json!(turn.usage),
    }
}

/// How a turn ended, as a state and an error.
pub(crate) fn outcome(outcome: &TurnOutcome) -> (State, Option<Failure>) {
    match outcome {
        TurnOutcome::Completed { .. } => (State::Completed, None),
        TurnOutcome::Failed { code, message } => {
            let (code, message) = (code.clone(), message.clone());
            (State::Failed, Some(Failure { code, message }))
        }
        TurnOutcome::Cancelled => (State::Cancelled, None),
        TurnOutcome::Superseded => (State::Superseded, None),
        TurnOutcome::Rejected => (State::Rejected, None),
    }
}
