//! `POST /v1/sessions/{session}/cancel`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use steadfast_core::command::CommandBody;
use steadfast_core::event::{Rejection, Verdict};
use steadfast_core::id::{CommandId, Seq, SessionKey, TurnId};
use steadfast_core::session::Session;
use utoipa::ToSchema;

use super::command::{self, CommandAnswer, CommandState};
use crate::app::Api;
use crate::error::{Problem, ProblemBody};
use crate::input::body::OptionalBody;
use crate::input::target::{CommandKey, Target};

/// Which turn to end.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelBody {
    /// The turn; left out: the one that runs, else that of the newest waiting message.
    turn_id: Option<u64>,
}

/// Ends a turn.
///
/// Once answered with 200, nothing of the turn starts any more. Which turn is meant is settled
/// before the command is admitted, so a late cancel never hits a later turn.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session}/cancel",
    tag = "turns",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("Idempotency-Key" = Option<String>, Header, description = "Id of the command: the same again is not done twice"),
    ),
    request_body(content = Option<CancelBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "The turn is ended", body = CommandAnswer),
        (status = 202, description = "The command is durable and will be decided", body = CommandAnswer),
        (status = "4XX", description = "`turn_not_running`, `session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn cancel(
    State(api): State<Api>,
    target: Target,
    CommandKey(id): CommandKey,
    OptionalBody(body): OptionalBody<CancelBody>,
) -> Result<(StatusCode, Json<CommandAnswer>), Problem> {
    let key = target.session()?;
    let turn = match body.turn_id {
        Some(turn) => TurnId(Seq(turn)),
        None => match meant(&api, &key, &id).await? {
            Meant::Turn(turn) => turn,
            Meant::Repetition(answer) => return Ok((StatusCode::OK, Json(answer))),
        },
    };
    let body = CommandBody::Cancel { turn: Some(turn) };
    command::send(&api, &key, id, body).await
}

enum Meant {
    Turn(TurnId),
    /// The command was done before, whatever turn it meant then.
    Repetition(CommandAnswer),
}

async fn meant(api: &Api, key: &SessionKey, id: &CommandId) -> Result<Meant, Problem> {
    let session = api.backend().load(key).await?;
    let before = session.receipts.get(id);
    if before.is_some_and(|receipt| receipt.verdict == Verdict::Done) {
        return Ok(Meant::Repetition(CommandAnswer {
            command_id: id.to_string(),
            state: CommandState::Done,
            seq: Some(session.seq.0),
        }));
    }
    let turn = meant_turn(&session).ok_or(Rejection::TurnNotRunning)?;
    Ok(Meant::Turn(turn))
}

/// The turn that a cancel without one means.
pub(super) fn meant_turn(session: &Session) -> Option<TurnId> {
    let running = session.turn.as_ref().map(|turn| turn.id);
    let newest = session.queue.iter().map(|queued| queued.turn).max();
    running.or(newest)
}
