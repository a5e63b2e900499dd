//! Chunks of the wire, and how they are written.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

/// First bytes of a stream: proxies and clients see at once that it is open.
pub(crate) const OPENING: Bytes = Bytes::from_static(b": stream-open\n\n");

/// A comment: keeps a quiet connection open.
pub(crate) const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// Last bytes of a stream.
pub(crate) const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

/// One chunk. A field that is absent is left out: `null` would be refused.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Chunk {
    Start {
        message_id: String,
        message_metadata: Value,
    },
    StartStep,
    FinishStep,
    /// All that was shown of the open step is void.
    ResetStep,
    TextStart {
        id: String,
    },
    TextDelta {
        id: String,
        delta: String,
    },
    TextEnd {
        id: String,
    },
    ReasoningStart {
        id: String,
    },
    ReasoningDelta {
        id: String,
        delta: String,
    },
    ReasoningEnd {
        id: String,
    },
    ToolInputStart {
        tool_call_id: String,
        tool_name: String,
        #[serde(skip_serializing_if = "Value::is_null")]
        tool_metadata: Value,
    },
    ToolInputDelta {
        tool_call_id: String,
        input_text_delta: String,
    },
    /// The client's `onToolCall` is called.
    ToolInputAvailable {
        tool_call_id: String,
        tool_name: String,
        input: Value,
        #[serde(skip_serializing_if = "Value::is_null")]
        tool_metadata: Value,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        provider_executed: bool,
    },
    ToolInputError {
        tool_call_id: String,
        tool_name: String,
        input: Value,
        error_text: String,
        #[serde(skip_serializing_if = "Value::is_null")]
        tool_metadata: Value,
    },
    ToolApprovalRequest {
        approval_id: String,
        tool_call_id: String,
    },
    ToolApprovalResponse {
        approval_id: String,
        approved: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    ToolOutputAvailable {
        tool_call_id: String,
        output: Value,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        preliminary: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        provider_executed: bool,
    },
    ToolOutputError {
        tool_call_id: String,
        error_text: String,
    },
    ToolOutputDenied {
        tool_call_id: String,
    },
    /// What a tool asks, by the id of its call; shown anew when it is answered.
    #[serde(rename = "data-question")]
    Question {
        id: String,
        data: Value,
    },
    /// A message that joined the turn.
    SteeringMessage {
        id: String,
        parts: Vec<Value>,
    },
    MessageMetadata {
        message_metadata: Value,
    },
    Error {
        error_text: String,
    },
    Abort {
        reason: String,
    },
    Finish {
        finish_reason: &'static str,
        message_metadata: Value,
    },
}

impl Chunk {
    /// Its frame.
    pub(crate) fn frame(&self) -> Result<Bytes, serde_json::Error> {
        let json = serde_json::to_string(self)?;
        Ok(format!("data: {json}\n\n").into())
    }
}

/// A value without the keys by which the client's parser refuses a whole stream. They are renamed,
/// so that nothing of what a tool said is lost.
pub(crate) fn harmless(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut safe = Map::new();
            for (key, value) in map {
                let poison = key == "__proto__"
                    || (key == "constructor" && value.get("prototype").is_some());
                let key = if poison { format!("({key})") } else { key };
                safe.insert(key, harmless(value));
            }
            Value::Object(safe)
        }
        Value::Array(values) => Value::Array(values.into_iter().map(harmless).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chunk_is_one_frame() {
        let chunk = Chunk::ToolApprovalResponse {
            approval_id: "a".into(),
            approved: false,
            reason: None,
        };
        let frame = chunk.frame().unwrap();
        assert_eq!(
            &frame[..],
            b"data: {\"type\":\"tool-approval-response\",\"approvalId\":\"a\",\"approved\":false}\n\n"
        );
    }

    #[test]
    fn keys_that_would_kill_the_stream_are_renamed() {
        let value = json!({
            "a": [{"__proto__": {"b": 1}}],
            "constructor": {"prototype": {"__proto__": 2}},
            "c": {"constructor": "kept", "prototype": 3},
        });
        let expected = json!({
            "a": [{"(__proto__)": {"b": 1}}],
            "(constructor)": {"prototype": {"(__proto__)": 2}},
            "c": {"constructor": "kept", "prototype": 3},
        });
        assert_eq!(harmless(value), expected);
    }
}
