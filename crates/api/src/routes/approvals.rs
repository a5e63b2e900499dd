//! `GET /v1/approvals` and `POST /v1/sessions/{session}/approvals/{approval}`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::call::CallState;
use steadfast_core::command::CommandBody;
use steadfast_core::content::{CallInput, Stored};
use steadfast_core::id::{AgentName, SessionId};
use steadfast_core::session::Session;
use steadfast_store::directory::{DirectoryQuery, Status};
use utoipa::ToSchema;

use super::command::{self, CommandAnswer};
use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::body::JsonBody;
use crate::input::query::{Parameters, Query};
use crate::input::target::{CommandKey, Target};
use crate::messages::load;
use crate::options::Limits;

/// Waiting sessions read from the directory at once.
const SESSIONS_MAX: usize = 100;

/// An answer to an approval.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalBody {
    /// Yes or no.
    approved: bool,
    /// Why; after a yes for the tool, after a no for the model.
    reason: Option<String>,
}

/// Answers an approval.
///
/// The same answer again is fine; another one is `approval_decided`.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session}/approvals/{approval}",
    tag = "turns",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("approval" = String, Path, description = "Id of the approval, as in `approval_requested`"),
        ("Idempotency-Key" = Option<String>, Header, description = "Id of the command: the same again is not done twice"),
    ),
    request_body = ApprovalBody,
    responses(
        (status = 200, description = "It is decided", body = CommandAnswer),
        (status = 202, description = "The answer is durable and will be decided", body = CommandAnswer),
        (status = "4XX", description = "`approval_decided`, `approval_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn decide(
    State(api): State<Api>,
    target: Target,
    CommandKey(id): CommandKey,
    JsonBody(body): JsonBody<ApprovalBody>,
) -> Result<(StatusCode, Json<CommandAnswer>), Problem> {
    let key = target.session()?;
    let body = CommandBody::DecideApproval {
        approval: target.param("approval")?,
        approved: body.approved,
        reason: body.reason,
        triage: None,
    };
    command::send(&api, &key, id, body).await
}

/// Approvals that wait, over all sessions of the tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitingApprovals {
    /// Ordered by session.
    approvals: Vec<WaitingApproval>,
    /// Give it as `after` for the next page; left out: this was the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// An approval that waits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitingApproval {
    /// The session.
    session: String,
    /// Whose agent asks.
    agent: String,
    /// The session whose agent asked this one, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// The turn that waits.
    turn_id: u64,
    /// Its id.
    approval_id: String,
    /// The call it guards.
    call_id: String,
    /// The tool.
    tool: String,
    /// Arguments; `{"type": "blob", "hash", "size_bytes"}` when they are large.
    #[schema(value_type = Object)]
    input: Value,
    /// Since when it waits, in milliseconds since the Unix epoch.
    since: u64,
    /// When it counts as denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    /// Where it is answered: a `POST` of `{"approved": true}` or `{"approved": false}`, with a
    /// `reason` if there is one.
    answer_path: String,
}

/// In which sessions to look.
pub(crate) struct Wanted {
    agent: Option<AgentName>,
    after: Option<SessionId>,
    limit: usize,
}

impl Parameters for Wanted {
    fn read(query: &mut Query, _: &Limits) -> Result<Self, Problem> {
        Ok(Self {
            agent: query.parsed("agent")?,
            after: query.parsed("after")?,
            limit: query.limit(SESSIONS_MAX, SESSIONS_MAX)?,
        })
    }
}

/// Lists approvals that wait.
///
/// Which sessions wait is read from the directory, which may be a moment behind; what they wait for
/// is read from the sessions themselves.
#[utoipa::path(
    get,
    path = "/v1/approvals",
    tag = "turns",
    params(
        ("agent" = Option<String>, Query, description = "Only of this agent's sessions"),
        ("after" = Option<String>, Query, description = "Only of sessions after this id"),
        ("limit" = Option<usize>, Query, description = "Sessions looked at, 1 to 100; default 100"),
    ),
    responses(
        (status = 200, description = "The approvals", body = WaitingApprovals),
        (status = "4XX", description = "`query_invalid`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    target: Target<Wanted>,
) -> Result<Json<WaitingApprovals>, Problem> {
    let limit = target.query.limit;
    let found = DirectoryQuery {
        agent: target.query.agent.clone(),
        status: Some(Status::Waiting),
        after: target.query.after.clone(),
        limit,
        ..DirectoryQuery::default()
    };
    let waiting = api.backend().list(&target.caller.tenant, found).await?;
    let next = (waiting.len() == limit)
        .then(|| waiting.last().map(|(session, _)| session.to_string()))
        .flatten();
    let mut approvals = Vec::new();
    for (session, entry) in waiting {
        if entry.approvals.is_empty() {
            continue;
        }
        match api.backend().load(&target.key(session)).await {
            Ok(session) => approvals.extend(of_session(&api, &session).await?),
            // One session that cannot be read, or is gone by now, hides no other.
            Err(problem) if problem.code() != ErrorCode::StoreUnavailable => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(Json(WaitingApprovals { approvals, next }))
}

async fn of_session(api: &Api, session: &Session) -> Result<Vec<WaitingApproval>, Problem> {
    let mut approvals = Vec::new();
    let (Some(profile), Some(turn)) = (session.profile(), &session.turn) else {
        return Ok(approvals);
    };
    for call in &turn.calls {
        let CallState::AwaitingApproval {
            approval,
            expires_at,
        } = call.state
        else {
            continue;
        };
        let id = &session.key.session;
        approvals.push(WaitingApproval {
            session: id.to_string(),
            agent: profile.agent.to_string(),
            parent: profile
                .parent
                .as_ref()
                .map(|parent| parent.session.to_string()),
            turn_id: turn.id.0.0,
            approval_id: approval.to_string(),
            call_id: call.id.to_string(),
            tool: call.tool.clone(),
            input: input(api, session, &call.input).await?,
            since: call.since.0,
            expires_at: expires_at.map(|at| at.0),
            answer_path: format!("/v1/sessions/{id}/approvals/{approval}"),
        });
    }
    Ok(approvals)
}

async fn input(api: &Api, session: &Session, input: &Stored<CallInput>) -> Result<Value, Problem> {
    /// Above this a list shows a reference.
    const SHOWN_BYTES_MAX: u64 = 64 * 1024;
    let input = match input {
        Stored::Inline(input) => input.clone(),
        Stored::Blob(blob) if blob.size_bytes > SHOWN_BYTES_MAX => {
            return Ok(load::blob_value(*blob));
        }
        Stored::Blob(blob) => load::read(api.backend(), &session.key, *blob).await?,
    };
    Ok(match input {
        CallInput::Json(value) => value,
        CallInput::Malformed { text, .. } => Value::String(text),
    })
}
