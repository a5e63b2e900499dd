//! `GET` and `POST /v1/sessions`

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::id::{AgentName, CommandId, SessionId};
use steadfast_store::directory::{DirectoryEntry, DirectoryQuery, Status};
use utoipa::ToSchema;

use super::command::CommandAnswer;
use super::one_session::{self, SessionBody};
use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::body::JsonBody;
use crate::input::query::{self, Parameters, Query};
use crate::input::target::{self, CommandKey, IDEMPOTENCY_KEY, Target};
use crate::options::Limits;
use crate::session_view::{SessionView, StatusView};

const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 500;

/// What a session shall be, and under which id.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSessionBody {
    /// 1 to 128 of `[A-Za-z0-9_-]`; left out: one is made here.
    #[schema(value_type = Option<String>)]
    id: Option<SessionId>,
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

/// Makes a session under an id made here.
///
/// With an `Idempotency-Key` the id follows from it, so the same request again is the same session.
#[utoipa::path(
    post,
    path = "/v1/sessions",
    tag = "sessions",
    params(("Idempotency-Key" = Option<String>, Header, description = "The same again makes no second session")),
    request_body = NewSessionBody,
    responses(
        (status = 200, description = "It is there already", body = SessionView),
        (status = 201, description = "It is made", body = SessionView),
        (status = 202, description = "The command is durable and will be decided", body = CommandAnswer),
        (status = "4XX", description = "`session_exists`, `agent_unknown`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(api): State<Api>,
    target: Target,
    headers: HeaderMap,
    CommandKey(id): CommandKey,
    JsonBody(body): JsonBody<NewSessionBody>,
) -> Result<Response, Problem> {
    let session = id_for(body.id, &headers, &id)?;
    let new = SessionBody::new(body.agent, body.metadata, body.tags).into_new(&api)?;
    one_session::create(&api, &target.key(session), id, new).await
}

/// The id of a session to be made: the client's, one that follows from its key, or a new one.
pub(crate) fn id_for(
    given: Option<SessionId>,
    headers: &HeaderMap,
    command: &CommandId,
) -> Result<SessionId, Problem> {
    match given {
        Some(session) => Ok(session),
        None if headers.contains_key(IDEMPOTENCY_KEY) => {
            let hash = blake3::hash(command.as_str().as_bytes()).to_hex();
            made_id(hash.get(..32).unwrap_or_default())
        }
        None => made_id(target::new_command_id()?.as_str()),
    }
}

fn made_id(text: &str) -> Result<SessionId, Problem> {
    SessionId::new(text).map_err(|error| {
        tracing::error!(%error, "made an invalid id");
        Problem::new(ErrorCode::Internal, "no id could be made")
    })
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    /// Ordered by id.
    sessions: Vec<ListedSession>,
    /// Give it as `after` for the next page; left out: this was the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// What a list shows of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedSession {
    /// Its id.
    id: String,
    /// Whose agent answers.
    agent: String,
    /// Its tags.
    tags: Vec<String>,
    /// What it does.
    status: StatusView,
    /// How its last turn ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_turn: Option<String>,
    /// Ids of approvals that wait.
    approvals: Vec<String>,
    /// When it was made, in milliseconds since the Unix epoch.
    created_at: u64,
    /// When it last changed.
    updated_at: u64,
}

impl ListedSession {
    fn of((id, entry): (SessionId, DirectoryEntry)) -> Self {
        Self {
            id: id.to_string(),
            agent: entry.agent.to_string(),
            tags: entry.tags,
            status: entry.status.into(),
            last_turn: entry.last_turn,
            approvals: entry.approvals,
            created_at: entry.created_at.0,
            updated_at: entry.updated_at.0,
        }
    }
}

/// Which sessions to list.
pub(crate) struct Wanted(DirectoryQuery);

impl Parameters for Wanted {
    fn read(query: &mut Query, _: &Limits) -> Result<Self, Problem> {
        Ok(Self(DirectoryQuery {
            agent: query.parsed("agent")?,
            status: query.text("status")?.as_deref().map(status).transpose()?,
            tag: query.text("tag")?,
            after: query.parsed("after")?,
            limit: query.limit(LIMIT_DEFAULT, LIMIT_MAX)?,
        }))
    }
}

/// Lists sessions.
///
/// The list may be a moment behind; a session itself never is.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    tag = "sessions",
    params(
        ("agent" = Option<String>, Query, description = "Only this agent's"),
        ("status" = Option<StatusView>, Query, description = "Only in this status"),
        ("tag" = Option<String>, Query, description = "Only with this tag"),
        ("after" = Option<String>, Query, description = "Only after this id"),
        ("limit" = Option<usize>, Query, description = "1 to 500; default 50"),
    ),
    responses(
        (status = 200, description = "The sessions", body = SessionList),
        (status = "4XX", description = "`query_invalid`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    target: Target<Wanted>,
) -> Result<Json<SessionList>, Problem> {
    let Wanted(wanted) = target.query;
    let limit = wanted.limit;
    let found = api.backend().list(&target.caller.tenant, wanted).await?;
    let next = (found.len() == limit)
        .then(|| found.last().map(|(session, _)| session.to_string()))
        .flatten();
    let sessions = found.into_iter().map(ListedSession::of).collect();
    Ok(Json(SessionList { sessions, next }))
}

fn status(text: &str) -> Result<Status, Problem> {
    match text {
        "idle" => Ok(Status::Idle),
        "running" => Ok(Status::Running),
        "waiting" => Ok(Status::Waiting),
        "quarantined" => Ok(Status::Quarantined),
        _ => {
            let rule = "it must be `idle`, `running`, `waiting` or `quarantined`";
            Err(query::invalid("status", rule))
        }
    }
}
