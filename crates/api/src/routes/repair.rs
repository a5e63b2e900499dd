//! `POST /v1/sessions/{session}/repair`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::command::{CommandBody, Settler};
use steadfast_core::id::{CallId, CommandId, SessionKey};
use utoipa::ToSchema;

use super::calls::{any_value, output};
use super::command::{self, CommandAnswer, CommandState};
use crate::app::Api;
use crate::auth::Scope;
use crate::error::{Problem, ProblemBody};
use crate::input::body::JsonBody;
use crate::input::target::{CommandKey, Target};

/// What to repair.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RepairBody {
    /// What to do.
    action: RepairAction,
    /// With `settle`, `skip` and `retry`: the call.
    #[schema(value_type = Option<String>)]
    call_id: Option<CallId>,
    /// With `settle`: what the call gave, a text or any JSON.
    #[serde(default, deserialize_with = "any_value")]
    #[schema(value_type = Option<Object>)]
    output: Option<Value>,
    /// With `settle`: that it went wrong, a text or any JSON.
    #[serde(default, deserialize_with = "any_value")]
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
}

/// What an operator does about a session that does not go on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RepairAction {
    /// Ends the quarantine: the session goes on after what can be read of its log.
    Unquarantine,
    /// Says how a call in doubt ended.
    Settle,
    /// Lets the turn go on without the outcome of a call in doubt.
    Skip,
    /// Runs a call in doubt once more.
    Retry,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct RepairAnswer {
    #[serde(flatten)]
    answer: CommandAnswer,
    /// With `unquarantine`: the part of the log that no longer counts. It is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<Lost>,
}

/// A part of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Lost {
    /// Number of the last event before it.
    after: u64,
    /// Number of the first event after it.
    before: u64,
}

/// Repairs a session that does not go on by itself.
///
/// `unquarantine`: what cannot be read of the log in one piece no longer counts and is kept. What of
/// it can still be read holds: the same answer to the same command, how turns and calls ended. Of
/// the rest, turns fail with `log_damaged`, calls that may have run are in doubt, and nothing runs
/// again. Numbers go on far above all that may have been given out. If not even the beginning can be
/// read, the session is gone and its id can be used again.
///
/// `settle` and `skip` end the wait for a call in doubt. `retry` runs it once more, under the same key
/// and a higher fence: you say that it did not happen, or that it may happen twice. An answer to an
/// earlier attempt that comes meanwhile is taken; without an outcome the call is in doubt again.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session}/repair",
    tag = "sessions",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("Idempotency-Key" = Option<String>, Header, description = "Id of the command: the same again is not done twice"),
    ),
    request_body = RepairBody,
    responses(
        (status = 200, description = "It is done", body = RepairAnswer),
        (status = 202, description = "The command is durable and will be decided", body = RepairAnswer),
        (status = "4XX", description = "`session_not_quarantined`, `call_not_waiting`, `call_blocked`, `scope_missing`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn repair(
    State(api): State<Api>,
    target: Target,
    CommandKey(id): CommandKey,
    JsonBody(body): JsonBody<RepairBody>,
) -> Result<(StatusCode, Json<RepairAnswer>), Problem> {
    target.caller.require(Scope::Operate)?;
    let key = target.session()?;
    let body = match body.action {
        RepairAction::Unquarantine => {
            body.refuse("call_id", body.call_id.is_some())?;
            body.refuse("output", body.output.is_some())?;
            body.refuse("error", body.error.is_some())?;
            return unquarantine(&api, &key, id).await;
        }
        RepairAction::Settle => CommandBody::SettleCall {
            call: body.call()?,
            output: output(body.output, body.error)?.into(),
            by: Settler::Operator,
        },
        RepairAction::Skip => {
            body.refuse("output", body.output.is_some())?;
            body.refuse("error", body.error.is_some())?;
            CommandBody::SkipCall { call: body.call()? }
        }
        RepairAction::Retry => {
            body.refuse("output", body.output.is_some())?;
            body.refuse("error", body.error.is_some())?;
            CommandBody::RetryCall { call: body.call()? }
        }
    };
    let (status, Json(answer)) = command::send(&api, &key, id, body).await?;
    Ok((status, Json(RepairAnswer { answer, lost: None })))
}

impl RepairBody {
    fn call(&self) -> Result<CallId, Problem> {
        self.call_id.ok_or_else(|| Problem::missing("call_id"))
    }

    /// Refuses a field that has no meaning with the action.
    fn refuse(&self, field: &'static str, is_there: bool) -> Result<(), Problem> {
        match is_there {
            true => Err(Problem::field(field, "it does not go with this `action`")),
            false => Ok(()),
        }
    }
}

async fn unquarantine(
    api: &Api,
    key: &SessionKey,
    id: CommandId,
) -> Result<(StatusCode, Json<RepairAnswer>), Problem> {
    let command_id = id.to_string();
    let repaired = api.backend().repair(key, id).await?;
    let answer = CommandAnswer {
        command_id,
        state: CommandState::Done,
        seq: Some(repaired.session.seq.0),
    };
    let lost = Lost {
        after: repaired.after.0,
        before: repaired.before.0,
    };
    let lost = Some(lost);
    Ok((StatusCode::OK, Json(RepairAnswer { answer, lost })))
}
