//! `GET /v1/agents/{agent}/chat/{session}`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::chat;
use crate::app::Api;
use crate::chat::act::Chat;
use crate::chat::history::History;
use crate::error::{Problem, ProblemBody};
use crate::input::target::Target;

/// A conversation as `useChat` keeps it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatHistory {
    /// Id of the chat.
    id: String,
    /// Messages with `id`, `role`, `parts` and `metadata`, oldest first: the `messages` that a chat
    /// begins with.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
    /// There are older messages; `GET /v1/sessions/{session}/messages` has them all.
    has_earlier: bool,
}

/// Reads the conversation for a page that is opened.
///
/// The newest answer is as far as it is recorded; coming back to its stream replaces it. A chat
/// that is not there yet has no messages.
#[utoipa::path(
    get,
    path = "/v1/agents/{agent}/chat/{session}",
    tag = "chat",
    params(
        ("agent" = String, Path, description = "Name of the agent"),
        ("session" = String, Path, description = "Id of the chat"),
    ),
    responses(
        (status = 200, description = "The messages", body = ChatHistory),
        (status = "4XX", description = "`agent_not_found`, `session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    target: Target,
) -> Result<Json<ChatHistory>, Problem> {
    let agent = chat::agent(&api, &target)?;
    let key = target.session()?;
    let chat = Chat {
        api: &api,
        key: &key,
        agent: &agent,
    };
    let history = match chat.session().await? {
        Some(session) => History::read(api.backend(), &key, session.seq).await?,
        None => History::default(),
    };
    Ok(Json(ChatHistory {
        id: key.session.to_string(),
        has_earlier: history.has_earlier,
        messages: history.into_messages(),
    }))
}
