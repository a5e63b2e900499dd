//! `POST /v1/sessions/{session}/messages`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use steadfast_core::command::{CommandBody, MessageOptions, NewSession, ToolChoice, WhenBusy};
use steadfast_core::event::Verdict;
use steadfast_core::id::{AgentName, MessageId, Seq, SessionKey, TurnId};
use steadfast_core::trace::Traceparent;
use steadfast_runtime::agent::Drive;
use steadfast_runtime::sessions::Admission;
use utoipa::ToSchema;

use super::one_session::{check_agent, check_metadata};
use crate::app::Api;
use crate::error::{ErrorCode, Problem, ProblemBody};
use crate::input::body::JsonBody;
use crate::input::content::{ContentBody, PartBody};
use crate::input::nearest;
use crate::input::query::Wait;
use crate::input::steering::{ToolChoiceSchema, check_schema};
use crate::input::target::{self, Target};
use crate::receipt::{self, Receipt};

/// Names in a filter of tools, at most.
const FILTER_MAX: usize = 256;

/// A message to a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MessageBody)]
pub(crate) struct SubmitBody {
    /// Chosen by the client, 1 to 128 of `[A-Za-z0-9_-]`; the same id again runs nothing twice.
    /// Left out: one is made here.
    #[schema(value_type = Option<String>)]
    id: Option<MessageId>,
    /// A text, or an array of at most 256 parts.
    #[schema(value_type = ContentSchema)]
    content: ContentBody,
    /// Makes the session of this agent when it is new.
    #[schema(value_type = Option<String>)]
    agent: Option<AgentName>,
    /// What happens while a turn runs; default `queue`.
    #[serde(default)]
    when_busy: WhenBusyBody,
    /// With `steer`: only into this turn.
    turn_id: Option<u64>,
    /// An earlier message, which this one replaces: the conversation goes on from before it.
    #[schema(value_type = Option<String>)]
    replaces: Option<MessageId>,
    /// The application's own data, kept as it is: any JSON of at most 16 KiB.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Value,
    /// Only these tools are offered in the turn.
    active_tools: Option<Vec<String>>,
    /// These tools are not offered in the turn.
    inactive_tools: Option<Vec<String>>,
    /// Whether the turn calls tools, in place of what its agent says.
    #[schema(value_type = Option<ToolChoiceSchema>)]
    tool_choice: Option<ToolChoice>,
    /// JSON Schema 2020-12 of at most 16 KiB that the turn's answer must fit, in place of its
    /// agent's. An answer that does not is asked for again, twice at most; then the turn fails with
    /// `answer_unfit`.
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Value>,
    /// Which node runs the turn if the session is idle; default: as its agent is configured.
    drive: Option<DriveBody>,
}

/// Which node runs a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Drive)]
pub(crate) enum DriveBody {
    /// The node that takes the request. One without the role `driver` hands the turn over after a
    /// while, or when the client goes away, and takes no agent with tools that are commands.
    Request,
    /// A node with the role `driver`, by the queue, from the start.
    Queue,
}

/// What happens to a message while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = WhenBusy)]
pub(crate) enum WhenBusyBody {
    /// It is a turn of its own, in order.
    #[default]
    Queue,
    /// It joins the running turn before its next model call.
    Steer,
    /// It ends the running turn and runs next.
    Interrupt,
    /// It is refused.
    Reject,
}

/// The content of a message, as its schema.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = MessageContent)]
#[allow(dead_code)]
pub(crate) enum ContentSchema {
    /// One text.
    Text(String),
    /// Several parts.
    Parts(Vec<PartBody>),
}

/// Sends a message.
///
/// Answered once the message is durable: with 200 if it is over already, else with 202 and where it
/// stands. The same id and content again is answered with where the first one stands; the same id
/// with another content is `command_conflict`.
///
/// `?wait=30s` waits for the end of its turn. Then 200 says how it ended, with the text of the
/// agent's last reply; 202 says that the wait ended first.
#[utoipa::path(
    post,
    path = "/v1/sessions/{session}/messages",
    tag = "messages",
    params(
        ("session" = String, Path, description = "Id of the session"),
        ("wait" = Option<String>, Query, description = "How long to wait for the end of the turn: `30s`, `500ms`, `2m`"),
        ("traceparent" = Option<String>, Header, description = "W3C trace context: what the turn does stands in this trace, and its tools are given it"),
    ),
    request_body = SubmitBody,
    responses(
        (status = 200, description = "It is over", body = Receipt),
        (status = 202, description = "It is durable; this is where it stands", body = Receipt),
        (status = "4XX", description = "`command_conflict`, `turn_running`, `queue_full`, `session_not_found`, ...", body = ProblemBody, content_type = "application/problem+json"),
        (status = "5XX", description = "`outcome_unknown`, `store_unavailable`, ...", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn submit(
    State(api): State<Api>,
    target: Target<Wait>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<SubmitBody>,
) -> Result<(StatusCode, Json<Receipt>), Problem> {
    let key = target.session()?;
    let Wait(wait_ms) = target.query;
    let id = match body.id.clone() {
        Some(id) => id,
        None => target::new_command_id()?,
    };
    check_tools(&api, &key, &body).await?;
    let drive = body.drive.map(|drive| match drive {
        DriveBody::Request => Drive::Request,
        DriveBody::Queue => Drive::Queue,
    });
    let command = body.into_command(&api, traceparent(&headers))?;
    let admitted = api.backend().admit_driven(&key, id.clone(), command, drive);
    let receipt = match admitted.await? {
        Admission::Decided {
            verdict: Verdict::Rejected { reason },
            ..
        } => return Err(reason.into()),
        Admission::Decided { session, .. } => {
            let receipt = Receipt::in_session(&session, &id).ok_or_else(|| {
                tracing::error!(session = %key, "decided message has no receipt");
                Problem::new(ErrorCode::Internal, "the session does not know the message")
            })?;
            receipt.with_error(api.backend(), &key, &session).await?
        }
        Admission::Accepted => Receipt::accepted(&id),
    };
    let receipt = match wait_ms {
        Some(wait_ms) if wait_ms > 0 => {
            let patience = Duration::from_millis(wait_ms);
            let client = api.backend().watch_client(&key);
            let ended = receipt::wait(api.backend(), &key, &id, patience, api.shutdown());
            let ended = Box::pin(ended).await;
            client.answered();
            ended?
        }
        _ => receipt,
    };
    let status = if receipt.is_final() {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    Ok((status, Json(receipt)))
}

/// The caller's trace. One that is not understood is none, as the W3C asks.
fn traceparent(headers: &HeaderMap) -> Option<Traceparent> {
    headers.get("traceparent")?.to_str().ok()?.parse().ok()
}

/// Refuses names of tools which the session's agent does not have.
async fn check_tools(api: &Api, key: &SessionKey, body: &SubmitBody) -> Result<(), Problem> {
    body.check_filters()?;
    body.check_steering()?;
    let named = body.named_tools();
    if named.is_empty() {
        return Ok(());
    }
    let session = api.backend().load_any(key).await?;
    let profile = session.profile().map(|profile| &profile.agent);
    // A session that is not there, or an agent that is not configured, is refused at admission.
    let agent = profile.or(body.agent.as_ref());
    let Some(agent) = agent.and_then(|name| api.backend().agents().get(name)) else {
        return Ok(());
    };
    for (field, name) in named {
        if agent.catalog.may_have(name) {
            continue;
        }
        let mut detail = format!("`{field}`: agent `{}` has no tool `{name}`", agent.name);
        let tools = agent.catalog.tools();
        let known = tools.iter().map(|tool| tool.spec.name.as_str());
        if let Some(near) = nearest(name, known) {
            detail.push_str(&format!("; did you mean `{near}`?"));
        }
        return Err(Problem::new(ErrorCode::ToolUnknown, detail).with_field(field));
    }
    Ok(())
}

impl SubmitBody {
    fn into_command(
        self,
        api: &Api,
        traceparent: Option<Traceparent>,
    ) -> Result<CommandBody, Problem> {
        check_metadata(&self.metadata)?;
        if let Some(agent) = &self.agent {
            check_agent(api, agent)?;
        }
        if self.turn_id.is_some() && self.when_busy != WhenBusyBody::Steer {
            let rule = "it goes only with `when_busy` `steer`";
            return Err(Problem::field("turn_id", rule));
        }
        if self.replaces.is_some() && self.when_busy != WhenBusyBody::Queue {
            let rule = "a message that replaces another ends the running turn anyway: \
                        leave `when_busy` out";
            return Err(Problem::field("when_busy", rule));
        }
        let content = self.content.into_content()?;
        let options = MessageOptions {
            when_busy: match self.when_busy {
                WhenBusyBody::Queue => WhenBusy::Queue,
                WhenBusyBody::Steer => WhenBusy::Steer,
                WhenBusyBody::Interrupt => WhenBusy::Interrupt,
                WhenBusyBody::Reject => WhenBusy::Reject,
            },
            turn_id: self.turn_id.map(|turn| TurnId(Seq(turn))),
            replaces: self.replaces,
            metadata: self.metadata,
            active_tools: self.active_tools,
            inactive_tools: self.inactive_tools,
            tool_choice: self.tool_choice,
            output_schema: self.output_schema,
            traceparent,
            parent: None,
            share: None,
        };
        let new = self.agent.map(|agent| NewSession {
            agent,
            metadata: Value::Null,
            tags: Vec::new(),
        });
        Ok(CommandBody::Submit {
            content,
            options,
            new,
        })
    }

    /// Every tool that it names, with the field that does.
    fn named_tools(&self) -> Vec<(String, &str)> {
        let filters = [
            ("active_tools", &self.active_tools),
            ("inactive_tools", &self.inactive_tools),
        ];
        let listed = filters.into_iter().flat_map(|(field, names)| {
            let names = names.iter().flatten().enumerate();
            names.map(move |(index, name)| (format!("{field}[{index}]"), name.as_str()))
        });
        let chosen = self.tool_choice.as_ref().and_then(ToolChoice::tool);
        listed
            .chain(chosen.map(|name| ("tool_choice.tool".to_owned(), name)))
            .collect()
    }

    fn check_steering(&self) -> Result<(), Problem> {
        let given = [
            ("tool_choice", self.tool_choice.is_some()),
            ("output_schema", self.output_schema.is_some()),
        ];
        for (field, given) in given {
            if given && self.when_busy == WhenBusyBody::Steer {
                let rule = "a message that joins a turn cannot change how it goes on";
                return Err(Problem::field(field, rule));
            }
        }
        check_schema(self.output_schema.as_ref())
    }

    fn check_filters(&self) -> Result<(), Problem> {
        if self.active_tools.is_some() && self.inactive_tools.is_some() {
            let rule = "`active_tools` and `inactive_tools` exclude each other";
            return Err(Problem::field("inactive_tools", rule));
        }
        let filters = [
            ("active_tools", &self.active_tools),
            ("inactive_tools", &self.inactive_tools),
        ];
        for (field, names) in filters {
            let Some(names) = names else { continue };
            if self.when_busy == WhenBusyBody::Steer {
                let rule = "a message that joins a turn cannot change its tools";
                return Err(Problem::field(field, rule));
            }
            if names.len() > FILTER_MAX {
                return Err(Problem::field(field, format!("at most {FILTER_MAX} names")));
            }
            for (index, name) in names.iter().enumerate() {
                if name.is_empty() || name.len() > 64 {
                    let rule = "a tool's name has 1 to 64 bytes";
                    return Err(Problem::field(format!("{field}[{index}]"), rule));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// Each layer of the surface moves it about.
    #[test]
    fn a_submission_is_small() {
        let bytes = future_bytes(submit);
        assert!(bytes <= 3 * 1024, "{bytes} bytes");
    }
}
