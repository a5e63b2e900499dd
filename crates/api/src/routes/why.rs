//! `GET /v1/sessions/{session}/why`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use steadfast_core::effect::Effect;
use steadfast_core::session::Ownership;
use steadfast_core::why as explain;
use steadfast_core::why::{ChildCall, Timer, Waiting};
use utoipa::ToSchema;

use crate::app::Api;
use crate::error::{Problem, ProblemBody};
use crate::input::target::Target;

/// Why a session is as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Why)]
pub(crate) struct WhyView {
    /// One sentence for people.
    summary: String,
    /// The turn that runs or waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<u64>,
    /// Work that should be running, of `type` `model_call`, `tool_call`, `check`, ...
    #[schema(value_type = Vec<Object>)]
    outstanding: Vec<Effect>,
    /// Answers that people owe, with `since`.
    #[schema(value_type = Vec<Object>)]
    waiting: Vec<Waiting>,
    /// Calls that other agents answer: `call`, `tool`, `agent`, `session`, `since`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    children: Vec<ChildCall>,
    /// Waits by the clock: `what`, `until`.
    #[schema(value_type = Vec<Object>)]
    timers: Vec<Timer>,
    /// Messages that wait for their turn.
    queue_length: usize,
    /// Who owns the session: `never`, `owned` with its `node`, `released` with its `wake`.
    #[schema(value_type = Object)]
    ownership: Value,
    /// Number of the last event.
    seq: u64,
    /// When that was, in milliseconds since the Unix epoch.
    at: u64,
}

/// Explains what a session waits for.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}/why",
    tag = "sessions",
    params(("session" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "The explanation", body = WhyView),
        (status = "4XX", description = "`session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn why(State(api): State<Api>, target: Target) -> Result<Json<WhyView>, Problem> {
    let session = api.backend().load(&target.session()?).await?;
    let why = explain::why(&session);
    Ok(Json(WhyView {
        summary: why.summary,
        turn_id: why.turn.map(|turn| turn.0.0),
        outstanding: why.outstanding,
        waiting: why.waiting,
        children: why.children,
        timers: why.timers,
        queue_length: session.queue.len(),
        ownership: ownership(&session.ownership),
        seq: session.seq.0,
        at: session.at.0,
    }))
}

fn ownership(ownership: &Ownership) -> Value {
    serde_json::json!(ownership)
}
