//! `GET /v1/agents/{agent}/chat/{session}/stream`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::chat;
use crate::app::Api;
use crate::chat::act::{Chat, resumed};
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::target::Target;

/// Comes back to the newest answer.
///
/// The stream begins with the first chunk of the agent's newest message, whatever the client saw of
/// it before, and goes on live. 204: there is no such message, or its turn was stopped.
#[utoipa::path(
    get,
    path = "/v1/agents/{agent}/chat/{session}/stream",
    tag = "chat",
    params(
        ("agent" = String, Path, description = "Name of the agent"),
        ("session" = String, Path, description = "Id of the chat"),
    ),
    responses(
        (status = 200, description = "The stream", body = String, content_type = "text/event-stream"),
        (status = 204, description = "There is nothing to go on with"),
        (status = "4XX", description = "`agent_not_found`, `session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get(State(api): State<Api>, target: Target) -> Result<Response, Problem> {
    let agent = chat::agent(&api, &target)?;
    let key = target.session()?;
    let permit = api.streams().open(&api.options().limits, &key.tenant)?;
    if api.shutdown().is_cancelled() {
        let detail = "the node is shutting down; ask another one";
        return Err(Problem::new(ErrorCode::Draining, detail));
    }
    let chat = Chat {
        api: &api,
        key: &key,
        agent: &agent,
    };
    let session = chat.session().await?;
    Ok(match session.as_deref().and_then(resumed) {
        Some(following) => chat::answer(&api, &key, following, permit, None),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}
