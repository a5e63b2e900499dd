//! `GET` and `DELETE /v1/sessions/{session}/messages/{message}`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use steadfast_core::command::CommandBody;

use super::command::{self, CommandAnswer};
use crate::app::Api;
use crate::error::{Problem, ProblemBody};
use crate::input::query::Wait;
use crate::input::target::{CommandKey, Target};
use crate::receipt::{self, Receipt};

/// Says where a message stands.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/messages/{message}",
    tag = "messages",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("message" = String, Path, description = "Id of the message"),
        ("wait" = Option<String>, Query, description = "How long to wait for the end of its turn: `30s`, `500ms`, `2m`"),
    ),
    responses(
        (status = 200, description = "Where it stands", body = Receipt),
        (status = "4XX", description = "`message_not_found`, `session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    target: Target<Wait>,
) -> Result<Json<Receipt>, Problem> {
    let key = target.session()?;
    let id = target.param("message")?;
    let Wait(wait_ms) = target.query;
    let receipt = receipt::look_up(api.backend(), &key, &id).await?;
    Ok(Json(match wait_ms {
        Some(wait_ms) if wait_ms > 0 => {
            let patience = Duration::from_millis(wait_ms);
            receipt::wait(api.backend(), &key, &id, patience, api.shutdown()).await?
        }
        _ => receipt,
    }))
}

/// Takes a waiting message back.
///
/// A message whose turn has begun is `message_not_queued`: cancel the turn instead.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{session}/messages/{message}",
    tag = "messages",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("message" = String, Path, description = "Id of the message"),
        ("Idempotency-Key" = Option<String>, Header, description = "Id of the command: the same again is not done twice"),
    ),
    responses(
        (status = 200, description = "It is withdrawn", body = CommandAnswer),
        (status = 202, description = "The command is durable and will be decided", body = CommandAnswer),
        (status = "4XX", description = "`message_not_queued`, `message_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn withdraw(
    State(api): State<Api>,
    target: Target,
    CommandKey(id): CommandKey,
) -> Result<(StatusCode, Json<CommandAnswer>), Problem> {
    let key = target.session()?;
    let message = target.param("message")?;
    command::send(&api, &key, id, CommandBody::Withdraw { message }).await
}
