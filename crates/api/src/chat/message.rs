//! The message that chunks make: what the client's own reducer would keep of a stream that began
//! at the turn's start.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::chunk::Chunk;

/// The agent's message of a turn.
#[derive(Debug, Default)]
pub(crate) struct Message {
    id: String,
    metadata: Value,
    parts: Vec<Map<String, Value>>,
    /// Positions of texts that are not at their end.
    open: BTreeMap<String, usize>,
}

impl Message {
    /// The message as JSON; `None`: nothing was said.
    pub(crate) fn into_json(self) -> Option<Value> {
        if self.parts.is_empty() {
            return None;
        }
        let (id, parts, metadata) = (self.id, self.parts, self.metadata);
        Some(json!({"id": id, "role": "assistant", "metadata": metadata, "parts": parts}))
    }

    /// Takes a chunk in.
    pub(crate) fn take(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Start {
                message_id,
                message_metadata,
            } => {
                self.id = message_id;
                self.merge(message_metadata);
            }
            Chunk::MessageMetadata { message_metadata }
            | Chunk::Finish {
                message_metadata, ..
            } => self.merge(message_metadata),
            Chunk::StartStep => self.push(json!({"type": "step-start"})),
            Chunk::ResetStep => {
                let start = self.parts.iter().rposition(|part| is(part, "step-start"));
                self.parts.truncate(start.map_or(0, |start| start + 1));
                self.open.clear();
            }
            Chunk::SteeringMessage { id, parts } => {
                self.push(json!({"type": "steering-message", "id": id, "parts": parts}));
            }
            Chunk::FinishStep | Chunk::Error { .. } | Chunk::Abort { .. } => {}
            text @ (Chunk::TextStart { .. }
            | Chunk::TextDelta { .. }
            | Chunk::TextEnd { .. }
            | Chunk::ReasoningStart { .. }
            | Chunk::ReasoningDelta { .. }
            | Chunk::ReasoningEnd { .. }) => self.text(text),
            approval @ (Chunk::ToolApprovalRequest { .. }
            | Chunk::ToolApprovalResponse { .. }
            | Chunk::ToolOutputDenied { .. }) => self.approval(approval),
            call => self.call(call),
        }
    }

    fn text(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::TextStart { id } => {
                self.open.insert(id, self.parts.len());
                self.push(json!({"type": "text", "text": "", "state": "streaming"}));
            }
            Chunk::ReasoningStart { id } => {
                self.open.insert(id.clone(), self.parts.len());
                let (kind, state) = ("reasoning", "streaming");
                self.push(json!({"type": kind, "id": id, "text": "", "state": state}));
            }
            Chunk::TextDelta { id, delta } | Chunk::ReasoningDelta { id, delta } => {
                let position = self.open.get(&id);
                let part = position.and_then(|position| self.parts.get_mut(*position));
                if let Some(Value::String(text)) = part.and_then(|part| part.get_mut("text")) {
                    text.push_str(&delta);
                }
            }
            Chunk::TextEnd { id } | Chunk::ReasoningEnd { id } => {
                let position = self.open.remove(&id);
                if let Some(part) = position.and_then(|position| self.parts.get_mut(position)) {
                    part.insert("state".into(), "done".into());
                }
            }
            _ => {}
        }
    }

    fn approval(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::ToolApprovalRequest {
                approval_id,
                tool_call_id,
            } => self.tool(&tool_call_id, |part| {
                part.insert("state".into(), "approval-requested".into());
                part.insert("approval".into(), json!({"id": approval_id}));
            }),
            Chunk::ToolApprovalResponse {
                approval_id,
                approved,
                reason,
            } => {
                let asked = self.parts.iter_mut().find(|part| {
                    part.get("approval")
                        .is_some_and(|of| of["id"] == approval_id)
                });
                if let Some(part) = asked {
                    let mut approval = json!({"id": approval_id, "approved": approved});
                    if let (Some(approval), Some(reason)) = (approval.as_object_mut(), reason) {
                        approval.insert("reason".into(), reason.into());
                    }
                    part.insert("state".into(), "approval-responded".into());
                    part.insert("approval".into(), approval);
                }
            }
            Chunk::ToolOutputDenied { tool_call_id } => self.tool(&tool_call_id, |part| {
                part.insert("state".into(), "output-denied".into());
            }),
            _ => {}
        }
    }

    fn call(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::ToolInputStart {
                tool_call_id,
                tool_name,
                tool_metadata,
            } => self.call_part(
                &tool_call_id,
                &tool_name,
                tool_metadata,
                "input-streaming",
                [],
            ),
            Chunk::ToolInputDelta {
                tool_call_id,
                input_text_delta,
            } => self.tool(&tool_call_id, |part| {
                // Of a committed call the whole input is one delta.
                let input = serde_json::from_str(&input_text_delta).unwrap_or_default();
                part.insert("input".into(), input);
            }),
            Chunk::ToolInputAvailable {
                tool_call_id,
                tool_name,
                input,
                tool_metadata,
                provider_executed,
            } => {
                let state = "input-available";
                let fields = [("input", input)];
                self.call_part(&tool_call_id, &tool_name, tool_metadata, state, fields);
                if provider_executed {
                    self.tool(&tool_call_id, |part| {
                        part.insert("providerExecuted".into(), true.into());
                    });
                }
            }
            Chunk::ToolInputError {
                tool_call_id,
                tool_name,
                input,
                error_text,
                tool_metadata,
            } => {
                let fields = [("input", input), ("errorText", error_text.into())];
                let state = "output-error";
                self.call_part(&tool_call_id, &tool_name, tool_metadata, state, fields);
            }
            Chunk::ToolOutputAvailable {
                tool_call_id,
                output,
                ..
            } => self.tool(&tool_call_id, |part| {
                part.insert("state".into(), "output-available".into());
                part.insert("output".into(), output);
                part.remove("errorText");
            }),
            Chunk::ToolOutputError {
                tool_call_id,
                error_text,
            } => self.tool(&tool_call_id, |part| {
                part.insert("state".into(), "output-error".into());
                part.insert("errorText".into(), error_text.into());
                part.remove("output");
            }),
            _ => {}
        }
    }

    fn call_part<const N: usize>(
        &mut self,
        id: &str,
        tool: &str,
        metadata: Value,
        state: &str,
        fields: [(&str, Value); N],
    ) {
        let known = self
            .parts
            .iter()
            .any(|part| part.get("toolCallId").is_some_and(|other| other == id));
        if !known {
            self.push(json!({"type": format!("tool-{tool}"), "toolCallId": id}));
        }
        self.tool(id, |part| {
            part.insert("state".into(), state.into());
            for (name, value) in fields {
                part.insert(name.into(), value);
            }
            if !metadata.is_null() {
                part.insert("toolMetadata".into(), metadata);
            }
        });
    }

    fn tool(&mut self, id: &str, change: impl FnOnce(&mut Map<String, Value>)) {
        let mut parts = self.parts.iter_mut().rev();
        if let Some(part) =
            parts.find(|part| part.get("toolCallId").is_some_and(|other| other == id))
        {
            change(part);
        }
    }

    fn push(&mut self, part: Value) {
        if let Value::Object(part) = part {
            self.parts.push(part);
        }
    }

    fn merge(&mut self, metadata: Value) {
        match (&mut self.metadata, metadata) {
            (Value::Object(old), Value::Object(new)) => old.extend(new),
            (old, new) => *old = new,
        }
    }
}

fn is(part: &Map<String, Value>, kind: &str) -> bool {
    part.get("type").is_some_and(|value| value == kind)
}
