//! `PUT`, `GET` and `DELETE /v1/sessions/{session}`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use steadfast_core::command::{CommandBody, NewSession};
use steadfast_core::event::Verdict;
use steadfast_core::id::{AgentName, CommandId, SessionKey};
use steadfast_runtime::sessions::Admission;
use utoipa::ToSchema;

use super::command::{self, CommandAnswer, CommandState};
use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::body::JsonBody;
use crate::input::nearest;
use crate::input::target::{CommandKey, Target};
use crate::session_view::SessionView;

/// Tags of a session, at most.
const TAGS_MAX: usize = 32;
/// Length of a tag, at most.
const TAG_BYTES_MAX: usize = 128;
/// Metadata stands in the log itself.
pub(crate) const METADATA_BYTES_MAX: usize = 16 * 1024;

/// What a session shall be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionBody {
    /// Whose agent answers.
    #[schema(value_type = String)]
    agent: AgentName,
    /// The application's own data, kept as it is: any JSON of at most 16 KiB.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Value,
    /// For listing: at most 32 of at most 128 bytes.
    #[serde(default)]
    tags: Vec<String>,
}

impl SessionBody {
    pub(crate) fn new(agent: AgentName, metadata: Value, tags: Vec<String>) -> Self {
        Self {
            agent,
            metadata,
            tags,
        }
    }

    /// Checks it against limits and the configured agents.
    pub(crate) fn into_new(self, api: &Api) -> Result<NewSession, Problem> {
        check_agent(api, &self.agent)?;
        check_metadata(&self.metadata)?;
        if self.tags.len() > TAGS_MAX {
            return Err(Problem::field(
                "tags",
                format!("at most {TAGS_MAX} are allowed"),
            ));
        }
        for (index, tag) in self.tags.iter().enumerate() {
            if tag.is_empty() || tag.len() > TAG_BYTES_MAX {
                let rule = format!("it must have 1 to {TAG_BYTES_MAX} bytes");
                return Err(Problem::field(format!("tags[{index}]"), rule));
            }
        }
        Ok(NewSession {
            agent: self.agent,
            metadata: self.metadata,
            tags: self.tags,
        })
    }
}

/// Refuses agents that are not configured.
pub(crate) fn check_agent(api: &Api, agent: &AgentName) -> Result<(), Problem> {
    let agents = api.backend().agents();
    if agents.contains_key(agent) {
        return Ok(());
    }
    let mut detail = format!("`agent`: there is no agent `{agent}`");
    if let Some(near) = nearest(agent.as_str(), agents.keys().map(AgentName::as_str)) {
        detail.push_str(&format!("; did you mean `{near}`?"));
    }
    Err(Problem::new(ErrorCode::AgentUnknown, detail).with_field("agent"))
}

/// Refuses metadata that is too large for the log.
pub(crate) fn check_metadata(metadata: &Value) -> Result<(), Problem> {
    if metadata.to_string().len() > METADATA_BYTES_MAX {
        let rule = format!("it may have at most {METADATA_BYTES_MAX} bytes of JSON");
        return Err(Problem::field("metadata", rule));
    }
    Ok(())
}

/// Makes a session.
///
/// The same content again is the same session; another agent, other metadata or tags are
/// `session_exists`.
#[utoipa::path(
    put,
    path = "/v1/sessions/{session}",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "Id of the session: 1 to 128 of `[A-Za-z0-9_-]`"),
        ("Idempotency-Key" = Option<String>, Header, description = "Id of the command"),
    ),
    request_body = SessionBody,
    responses(
        (status = 200, description = "It is there already", body = SessionView),
        (status = 201, description = "It is made", body = SessionView),
        (status = 202, description = "The command is durable and will be decided", body = CommandAnswer),
        (status = "4XX", description = "`session_exists`, `session_deleting`, `agent_unknown`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn put(
    State(api): State<Api>,
    target: Target,
    CommandKey(id): CommandKey,
    JsonBody(body): JsonBody<SessionBody>,
) -> Result<Response, Problem> {
    let key = target.session()?;
    create(&api, &key, id, body.into_new(&api)?).await
}

/// Makes a session and shows it.
pub(crate) async fn create(
    api: &Api,
    key: &SessionKey,
    id: CommandId,
    new: NewSession,
) -> Result<Response, Problem> {
    let command_id = id.to_string();
    let body = CommandBody::Create { new };
    made(api.backend().admit(key, id, body).await?, command_id)
}

/// The answer to a command that makes a session.
pub(crate) fn made(admission: Admission, command_id: String) -> Result<Response, Problem> {
    match admission {
        Admission::Decided {
            verdict: Verdict::Rejected { reason },
            ..
        } => Err(reason.into()),
        Admission::Decided { session, first, .. } => {
            let status = if first {
                StatusCode::CREATED
            } else {
                StatusCode::OK
            };
            Ok((status, Json(SessionView::of(&session)?)).into_response())
        }
        Admission::Accepted => {
            let answer = CommandAnswer {
                command_id,
                state: CommandState::Accepted,
                seq: None,
            };
            Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
        }
    }
}

/// Shows a session.
#[utoipa::path(
    get,
    path = "/v1/sessions/{session}",
    tag = "sessions",
    params(("session" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "The session", body = SessionView),
        (status = "4XX", description = "`session_not_found`, `session_quarantined`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    target: Target,
) -> Result<Json<SessionView>, Problem> {
    let key = target.session()?;
    match api.backend().load(&key).await {
        Ok(session) => SessionView::of(&session).map(Json),
        Err(problem) if problem.code() == ErrorCode::SessionQuarantined => {
            match api.backend().readable(&key).await? {
                Some((session, why)) if session.profile().is_some() => {
                    SessionView::of(&session).map(|view| Json(view.quarantined(why)))
                }
                _ => Err(problem),
            }
        }
        Err(problem) => Err(problem),
    }
}

/// Removes a session.
///
/// From the answer on it is not found. Its turn is cancelled and what must still reach the outside
/// is delivered; then its log is purged. Ids of its calls and turns are never used again.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{session}",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("Idempotency-Key" = Option<String>, Header, description = "Id of the command"),
    ),
    responses(
        (status = 202, description = "It is being removed", body = CommandAnswer),
        (status = "4XX", description = "`session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    target: Target,
    CommandKey(id): CommandKey,
) -> Result<(StatusCode, Json<CommandAnswer>), Problem> {
    let key = target.session()?;
    let (_, answer) = command::send(&api, &key, id, CommandBody::Delete).await?;
    Ok((StatusCode::ACCEPTED, answer))
}
