//! `POST /v1/agents/{agent}/chat`

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{self, HeaderName};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use steadfast_core::id::{AgentName, SessionId, SessionKey};

use crate::app::Api;
use crate::backend::ClientWatch;
use crate::chat::act::{Chat, Following};
use crate::chat::posted::ChatBody;
use crate::chat::stream;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::body::JsonBody;
use crate::input::target::Target;

/// Sends a message, answers approvals, or gives results of the client's own tools.
///
/// For `useChat` of the AI SDK, as its default transport asks. The chat's id is the session's id; a
/// new one makes the session. Of the posted messages only the newest is read: a user's is a new
/// message, or, with its id as `messageId`, one that replaces an earlier one; an agent's holds
/// answers to calls that wait for them. Nothing else that a client posts has an effect.
///
/// The answer is a stream of chunks of one message, which ends by `finish`, `abort` or `error` and
/// `[DONE]`. A turn that waits for people ends its stream by `finish` with `tool-calls`. Ending the
/// stream ends no turn.
#[utoipa::path(
    post,
    path = "/v1/agents/{agent}/chat",
    tag = "chat",
    params(("agent" = String, Path, description = "Name of the agent")),
    request_body = ChatBody,
    responses(
        (status = 200, description = "The stream", body = String, content_type = "text/event-stream"),
        (status = "4XX", description = "`agent_not_found`, `field_invalid`, `session_exists`, `message_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn post(
    State(api): State<Api>,
    target: Target,
    JsonBody(body): JsonBody<ChatBody>,
) -> Result<Response, Problem> {
    let agent = agent(&api, &target)?;
    let session = SessionId::new(body.id.as_str())
        .map_err(|error| Problem::field("id", error.to_string()))?;
    let key = target.key(session);
    let posted = body.into_posted()?;
    // Before anything is done: a message whose answer cannot be streamed is not taken.
    let permit = api.streams().open(&api.options().limits, &key.tenant)?;
    let chat = Chat {
        api: &api,
        key: &key,
        agent: &agent,
    };
    let following = chat.act(posted).await?;
    let client = api.backend().watch_client(&key);
    Ok(answer(&api, &key, following, permit, Some(client)))
}

/// The agent that the path names.
pub(super) fn agent<P>(api: &Api, target: &Target<P>) -> Result<AgentName, Problem> {
    let agent: AgentName = target.param("agent")?;
    if api.backend().agents().contains_key(&agent) {
        return Ok(agent);
    }
    let detail = format!("there is no agent `{agent}`; `GET /v1/agents` lists them");
    Err(Problem::new(ErrorCode::AgentNotFound, detail).with_field("agent"))
}

/// A stream of which the session hears when its client drops it before the end.
fn watched<S: Stream>(frames: S, client: Option<ClientWatch>) -> impl Stream<Item = S::Item> {
    futures_util::stream::unfold((Box::pin(frames), client), |(mut frames, client)| async {
        let Some(frame) = frames.next().await else {
            if let Some(client) = client {
                client.answered();
            }
            return None;
        };
        Some((frame, (frames, client)))
    })
}

/// A stream as a response.
pub(super) fn answer(
    api: &Api,
    key: &SessionKey,
    following: Following,
    permit: crate::stream::permit::StreamPermit,
    client: Option<ClientWatch>,
) -> Response {
    api.metrics().stream_opened();
    let frames = stream::frames(api, key, following, permit);
    let frames = watched(frames, client);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (
            HeaderName::from_static("x-vercel-ai-ui-message-stream"),
            "v1",
        ),
        // Proxies that gather answers would hold frames back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}
