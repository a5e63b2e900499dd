//! What all commands without a message have in common.

use axum::Json;
use axum::http::StatusCode;
use serde::Serialize;
use steadfast_core::command::CommandBody;
use steadfast_core::event::Verdict;
use steadfast_core::id::{CommandId, SessionKey};
use steadfast_runtime::sessions::Admission;
use utoipa::ToSchema;

use crate::app::Api;
use crate::error::Problem;

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct CommandAnswer {
    /// Its id: the request's `Idempotency-Key`, or one made here.
    pub(crate) command_id: String,
    /// `done`, or `accepted` when it is durable and will be decided.
    pub(crate) state: CommandState,
    /// Number of the session's last event after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
}

/// Whether a command is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CommandState {
    /// It is decided and committed.
    Done,
    /// It is durable in the session's mailbox.
    Accepted,
}

/// Sends a command; a refusal is a problem.
pub(crate) async fn send(
    api: &Api,
    key: &SessionKey,
    id: CommandId,
    body: CommandBody,
) -> Result<(StatusCode, Json<CommandAnswer>), Problem> {
    let command_id = id.to_string();
    match api.backend().admit(key, id, body).await? {
        Admission::Decided {
            verdict: Verdict::Rejected { reason },
            ..
        } => Err(reason.into()),
        Admission::Decided { session, .. } => {
            let (state, seq) = (CommandState::Done, Some(session.seq.0));
            let answer = CommandAnswer {
                command_id,
                state,
                seq,
            };
            Ok((StatusCode::OK, Json(answer)))
        }
        Admission::Accepted => {
            let (state, seq) = (CommandState::Accepted, None);
            let answer = CommandAnswer {
                command_id,
                state,
                seq,
            };
            Ok((StatusCode::ACCEPTED, Json(answer)))
        }
    }
}
