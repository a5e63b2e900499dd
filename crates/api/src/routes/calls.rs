//! `POST /v1/sessions/{session}/calls/{call}/result`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use steadfast_core::command::{CommandBody, Settler};
use steadfast_core::content::ToolOutput;
use utoipa::ToSchema;

use super::command::{self, CommandAnswer};
use crate::app::Api;
use crate::auth::Scope;
use crate::error::{Problem, ProblemBody};
use crate::input::body::JsonBody;
use crate::input::target::{CommandKey, Target};

/// The result of a call: exactly one of the two.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResultBody {
    /// It went well: a text, or any JSON.
    #[serde(default, deserialize_with = "any_value")]
    #[schema(value_type = Option<Object>)]
    output: Option<Value>,
    /// It did not: a text, or any JSON, for the model.
    #[serde(default, deserialize_with = "any_value")]
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
}

/// Keeps `null` apart from a field that is not there.
pub(super) fn any_value<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The output of a call from exactly one of two fields.
pub(super) fn output(output: Option<Value>, error: Option<Value>) -> Result<ToolOutput, Problem> {
    Ok(match (output, error) {
        (Some(Value::String(text)), None) => ToolOutput::Text { text },
        (Some(value), None) => ToolOutput::Json { value },
        (None, Some(Value::String(text))) => ToolOutput::ErrorText { text },
        (None, Some(value)) => ToolOutput::ErrorJson { value },
        (None, None) => return Err(Problem::missing("output")),
        (Some(_), Some(_)) => {
            return Err(Problem::field(
                "error",
                "`output` and `error` exclude each other",
            ));
        }
    })
}

/// Gives a call its result.
///
/// For a client-side call that waits for it. A key with the scope `operate` may also settle a call
/// that is in doubt, and add the true answer of one that was given up as such.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session}/calls/{call}/result",
    tag = "turns",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("call" = String, Path, description = "Id of the call"),
        ("Idempotency-Key" = Option<String>, Header, description = "Id of the command: the same again is not done twice"),
    ),
    request_body = ResultBody,
    responses(
        (status = 200, description = "The call has its result", body = CommandAnswer),
        (status = 202, description = "The result is durable and will be decided", body = CommandAnswer),
        (status = "4XX", description = "`call_not_waiting`, `call_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn result(
    State(api): State<Api>,
    target: Target,
    CommandKey(id): CommandKey,
    JsonBody(body): JsonBody<ResultBody>,
) -> Result<(StatusCode, Json<CommandAnswer>), Problem> {
    let key = target.session()?;
    let output = output(body.output, body.error)?;
    let by = if target.caller.may(Scope::Operate) {
        Settler::Operator
    } else {
        Settler::Client
    };
    let body = CommandBody::SettleCall {
        call: target.param("call")?,
        output: output.into(),
        by,
    };
    command::send(&api, &key, id, body).await
}
