//! `POST /v1/agents/{agent}/chat/{session}/stop`

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use steadfast_core::command::CommandBody;
use steadfast_core::event::Rejection;
use utoipa::ToSchema;

use super::{cancel, chat, command};
use crate::app::Api;
use crate::chat::act::Chat;
use crate::error::{Problem, ProblemBody};
use crate::input::body::OptionalBody;
use crate::input::target::{CommandKey, Target};

/// Which answer to stop; further fields are the application's own.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct StopBody {
    /// Id of the agent's message; of one that is over already nothing is stopped. Left out: the one
    /// that runs.
    #[serde(rename = "activeStreamId")]
    active_stream_id: Option<String>,
}

/// What became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stopped {
    /// Nothing of the turn runs any more.
    success: bool,
}

/// Stops the answer.
///
/// Closing a stream does not. From then on there is nothing to come back to.
#[utoipa::path(
    post,
    path = "/v1/agents/{agent}/chat/{session}/stop",
    tag = "chat",
    params(
        ("agent" = String, Path, description = "Name of the agent"),
        ("session" = String, Path, description = "Id of the chat"),
        ("Idempotency-Key" = Option<String>, Header, description = "Id of the command"),
    ),
    request_body(content = Option<StopBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "It is stopped, or was over already", body = Stopped),
        (status = "4XX", description = "`session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn post(
    State(api): State<Api>,
    target: Target,
    CommandKey(id): CommandKey,
    OptionalBody(body): OptionalBody<StopBody>,
) -> Result<Json<Stopped>, Problem> {
    let agent = chat::agent(&api, &target)?;
    let key = target.session()?;
    let chat = Chat {
        api: &api,
        key: &key,
        agent: &agent,
    };
    let session = chat
        .session()
        .await?
        .ok_or_else(crate::backend::session_not_found)?;
    let turn = match &body.active_stream_id {
        Some(message) => crate::chat::turn_of(message),
        None => cancel::meant_turn(&session),
    };
    if let Some(turn) = turn {
        let cancel = CommandBody::Cancel { turn: Some(turn) };
        let stopped = command::send(&api, &key, id, cancel).await;
        let over = Problem::from(Rejection::TurnNotRunning).code();
        stopped.map(drop).or_else(|problem| {
            // It ended by itself meanwhile.
            if problem.code() == over {
                Ok(())
            } else {
                Err(problem)
            }
        })?;
    }
    Ok(Json(Stopped { success: true }))
}
