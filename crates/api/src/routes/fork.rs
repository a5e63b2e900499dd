//! `POST /v1/sessions/{session}/fork`

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use steadfast_core::event::Verdict;
use steadfast_core::id::{Seq, SessionId};
use utoipa::ToSchema;

use super::all_sessions::id_for;
use super::one_session;
use crate::app::Api;
use crate::error::{Problem, ProblemBody};
use crate::input::body::OptionalBody;
use crate::input::target::{CommandKey, Target};
use crate::session_view::SessionView;

/// Where to fork, and as what.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkBody {
    /// The event up to which the transcript is copied, the end of a turn; left out: the end of the
    /// last one.
    at_seq: Option<u64>,
    /// Id of the new session; left out: one is made here.
    #[schema(value_type = Option<String>)]
    id: Option<SessionId>,
}

/// Makes a session that begins with a copy of this one's transcript.
///
/// With an `Idempotency-Key` the new id follows from it, so the same request again is the same
/// session.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session}/fork",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "Id of the session to copy"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same again makes no second session"),
    ),
    request_body(content = Option<ForkBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "It is there already", body = SessionView),
        (status = 201, description = "The new session", body = SessionView),
        (status = 202, description = "The command is durable and will be decided", body = super::command::CommandAnswer),
        (status = "4XX", description = "`fork_not_possible`, `session_exists`, `session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn fork(
    State(api): State<Api>,
    target: Target,
    headers: HeaderMap,
    CommandKey(id): CommandKey,
    OptionalBody(body): OptionalBody<ForkBody>,
) -> Result<Response, Problem> {
    let from = target.session()?;
    let to = target.key(id_for(body.id, &headers, &id)?);
    // Where the transcript ends may have moved since: a repetition is told by its id alone.
    let before = api.backend().load_any(&to).await?;
    if before
        .receipts
        .get(&id)
        .is_some_and(|receipt| receipt.verdict == Verdict::Done)
    {
        return Ok(Json(SessionView::of(&before)?).into_response());
    }
    let command_id = id.to_string();
    let admission = api
        .backend()
        .fork(&from, body.at_seq.map(Seq), &to, id)
        .await?;
    one_session::made(admission, command_id)
}
