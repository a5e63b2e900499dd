//! What a client posts. Of its history only the newest message counts: a user's as what is new, the
//! agent's as votes on calls that the log knows.

use serde::Deserialize;
use serde_json::Value;
use steadfast_core::content::ToolOutput;
use utoipa::ToSchema;

use super::wire_id::WireCall;
use crate::error::Problem;

/// The body of a request of `useChat`; further fields are the application's own.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ChatBody {
    /// Id of the chat, which is the id of the session.
    pub(crate) id: String,
    /// The conversation as the client has it, oldest first; only the newest message is read.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Value>,
    /// The newest message alone.
    #[schema(value_type = Option<Object>)]
    message: Option<Value>,
    /// `submit-message` or `regenerate-message`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    trigger: Trigger,
    /// Id of the message that is edited, answered again, or continued.
    #[serde(rename = "messageId")]
    message_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trigger {
    #[default]
    SubmitMessage,
    RegenerateMessage,
}

/// What is asked.
#[derive(Debug, PartialEq)]
pub(crate) enum Posted {
    /// A user's message.
    Message(PostedMessage),
    /// This user's message shall be answered again.
    Again(PostedMessage),
    /// Answers to calls of the agent's newest message.
    Votes(Vec<Vote>),
}

/// A user's message.
#[derive(Debug, PartialEq)]
pub(crate) struct PostedMessage {
    pub(crate) id: String,
    pub(crate) parts: Vec<Value>,
    pub(crate) metadata: Value,
    /// It stands in place of an earlier one of the same id.
    pub(crate) edited: bool,
}

/// What a client says about a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vote {
    pub(crate) call: WireCall,
    pub(crate) ballot: Ballot,
}

/// What is said about a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ballot {
    /// An answer to this approval.
    Approval {
        id: String,
        approved: bool,
        reason: Option<String>,
    },
    /// The outcome of a call that the client ran.
    Output(ToolOutput),
    /// Nothing.
    Nothing,
}

impl ChatBody {
    /// What is asked.
    pub(crate) fn into_posted(mut self) -> Result<Posted, Problem> {
        let place = match self.message.is_some() {
            true => "message".to_owned(),
            false => format!("messages[{}]", self.messages.len().saturating_sub(1)),
        };
        let newest = self.message.take().or_else(|| self.messages.pop());
        let newest = newest.ok_or_else(|| Problem::missing("messages"))?;
        let parts = newest["parts"].as_array().cloned();
        let parts = parts.ok_or_else(|| {
            Problem::field(format!("{place}.parts"), "it must be an array of parts")
        })?;
        match (newest["role"].as_str(), self.trigger) {
            (Some("user"), trigger) => {
                let id = newest["id"].as_str().filter(|id| !id.is_empty());
                let id = id.ok_or_else(|| Problem::missing(format!("{place}.id")))?;
                let message = PostedMessage {
                    id: id.to_owned(),
                    parts,
                    metadata: newest["metadata"].clone(),
                    edited: self.message_id.as_deref() == Some(id),
                };
                Ok(match trigger {
                    Trigger::SubmitMessage => Posted::Message(message),
                    Trigger::RegenerateMessage => Posted::Again(message),
                })
            }
            (Some("assistant"), Trigger::SubmitMessage) => {
                Ok(Posted::Votes(parts.iter().filter_map(vote).collect()))
            }
            (Some("assistant"), Trigger::RegenerateMessage) => Err(Problem::field(
                place,
                "what is answered again is a user's message: leave out the answer itself",
            )),
            _ => Err(Problem::field(
                format!("{place}.role"),
                "it must be `user` or `assistant`",
            )),
        }
    }
}

fn vote(part: &Value) -> Option<Vote> {
    let call = part["toolCallId"].as_str()?.parse().ok()?;
    let ballot = match part["state"].as_str()? {
        "approval-responded" => approval(&part["approval"]),
        "output-available" => Ballot::Output(match part.get("output") {
            Some(Value::String(text)) => ToolOutput::text(text.as_str()),
            Some(value) => ToolOutput::from(value.clone()),
            None => ToolOutput::from(Value::Null),
        }),
        "output-error" => {
            let text = part["errorText"].as_str().unwrap_or("it failed");
            Ballot::Output(ToolOutput::error(text))
        }
        _ => Ballot::Nothing,
    };
    Some(Vote { call, ballot })
}

fn approval(approval: &Value) -> Ballot {
    match (&approval["id"], &approval["approved"]) {
        (Value::String(id), Value::Bool(approved)) => Ballot::Approval {
            id: id.clone(),
            approved: *approved,
            reason: approval["reason"].as_str().map(String::from),
        },
        _ => Ballot::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Result<Posted, Problem> {
        serde_json::from_value::<ChatBody>(body)
            .unwrap()
            .into_posted()
    }

    #[test]
    fn only_the_newest_message_counts() {
        let old = json!({"id": "u1", "role": "user", "parts": [{"type": "text", "text": "old"}]});
        let new = json!({"id": "u2", "role": "user", "parts": [{"type": "text", "text": "new"}],
            "metadata": {"a": 1}});
        let expected = Posted::Message(PostedMessage {
            id: "u2".into(),
            parts: vec![json!({"type": "text", "text": "new"})],
            metadata: json!({"a": 1}),
            edited: false,
        });
        let many = json!({"id": "c", "messages": [old, new.clone()], "trigger": "submit-message",
            "model": "an extra of the application"});
        assert_eq!(read(many).unwrap(), expected);
        let one = json!({"id": "c", "message": new});
        assert_eq!(read(one).unwrap(), expected);
    }

    #[test]
    fn an_agents_message_is_votes() {
        let part = |index: u16, rest: Value| {
            let mut part = json!({"type": "tool-x", "toolCallId": format!("call-5-2-{index}"),
                "input": "never read"});
            part.as_object_mut()
                .unwrap()
                .extend(rest.as_object().unwrap().clone());
            part
        };
        let body = json!({"id": "c", "messageId": "assistant-5", "messages": [
            {"id": "assistant-5", "role": "assistant", "parts": [
                {"type": "step-start"},
                part(0, json!({"state": "approval-responded",
                    "approval": {"id": "a", "approved": true, "reason": "fine"}})),
                part(1, json!({"state": "output-available", "output": {"b": 1}})),
                part(2, json!({"state": "output-error", "errorText": "no"})),
                part(3, json!({"state": "approval-requested", "approval": {"id": "d"}})),
                {"type": "tool-x", "toolCallId": "forged", "state": "output-available", "output": 1},
            ]},
        ]});
        let vote = |index, ballot| Vote {
            call: format!("call-5-2-{index}").parse().unwrap(),
            ballot,
        };
        let approval = Ballot::Approval {
            id: "a".into(),
            approved: true,
            reason: Some("fine".into()),
        };
        let expected = Posted::Votes(vec![
            vote(0, approval),
            vote(1, Ballot::Output(ToolOutput::from(json!({"b": 1})))),
            vote(2, Ballot::Output(ToolOutput::error("no"))),
            vote(3, Ballot::Nothing),
        ]);
        assert_eq!(read(body).unwrap(), expected);
    }

    #[test]
    fn odd_bodies_are_refused_with_their_place() {
        let user = json!({"id": "u", "role": "user", "parts": []});
        for (body, field) in [
            (json!({"id": "c"}), "messages"),
            (
                json!({"id": "c", "messages": [{"role": "user", "parts": []}]}),
                "messages[0].id",
            ),
            (
                json!({"id": "c", "messages": [user, {"id": "x", "role": "system", "parts": []}]}),
                "messages[1].role",
            ),
            (
                json!({"id": "c", "message": {"id": "x", "role": "user"}}),
                "message.parts",
            ),
            (
                json!({"id": "c", "trigger": "regenerate-message",
                "message": {"id": "x", "role": "assistant", "parts": []}}),
                "message",
            ),
        ] {
            let problem = read(body.clone()).unwrap_err();
            assert_eq!(problem.body().field.as_deref(), Some(field), "{body}");
        }
    }
}
