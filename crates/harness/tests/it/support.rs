//! Requests and streams as tests write them.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{ContentPart, ModelReply, Stored, ToolOutput};
use steadfast_core::id::{SessionId, SessionKey, TenantId};
use steadfast_core::input::ModelFailure;
use steadfast_harness::request::{
    ModelRequest, Purpose, RequestCall, RequestItem, RequestResult, ToolDeclaration,
};
use steadfast_harness::wire::{Dialect, Event, Wire};
use steadfast_protocol::live::Delta;

pub(crate) const MODEL: &str = "some-model";

pub(crate) fn key() -> SessionKey {
    SessionKey {
        tenant: TenantId::new("t").unwrap(),
        session: SessionId::new("s").unwrap(),
    }
}

pub(crate) fn dialect(wire: Wire) -> Dialect {
    Dialect::new(wire, wire.name(), "127.0.0.1")
}

pub(crate) fn request(items: Vec<RequestItem>) -> ModelRequest {
    ModelRequest {
        session: key(),
        model: MODEL.into(),
        instructions: "Be brief.".into(),
        tools: Arc::new(vec![ToolDeclaration {
            name: "get_weather".into(),
            description: "Weather".into(),
            input_schema: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
            provider: None,
        }]),
        items: items.into(),
        output_tokens_max: None,
        options: Value::Null,
        purpose: Purpose::Turn,
        tool_choice: ToolChoice::Auto,
        output_schema: None,
        attempt: 1,
    }
}

pub(crate) fn user(text: &str) -> RequestItem {
    RequestItem::User {
        parts: vec![ContentPart::Text { text: text.into() }],
    }
}

pub(crate) fn result(id: &str, output: ToolOutput) -> RequestResult {
    RequestResult {
        id: id.into(),
        tool: "get_weather".into(),
        output,
        note: None,
    }
}

/// A reply as it stands in the next request, with a result for each call.
pub(crate) fn history_of(reply: &ModelReply) -> Vec<RequestItem> {
    let inline = |part: &Stored<_>| Clone::clone(Stored::inline(part).unwrap());
    let calls: Vec<RequestCall> = reply
        .calls
        .iter()
        .map(|call| RequestCall {
            id: call.provider_call_id.clone(),
            tool: call.tool.clone(),
            input: call.input.inline().unwrap().clone(),
        })
        .collect();
    let results: Vec<RequestResult> = calls
        .iter()
        .map(|call| result(&call.id, ToolOutput::text("done")))
        .collect();
    let mut items = vec![RequestItem::Reply {
        wire: reply.wire.clone(),
        model: reply.model.clone(),
        parts: reply.parts.iter().map(inline).collect(),
        calls,
    }];
    if !results.is_empty() {
        items.push(RequestItem::Results { results });
    }
    items
}

/// Reads a stream of events given by their data alone.
pub(crate) fn read(wire: Wire, events: &[Value]) -> (Result<ModelReply, ModelFailure>, Vec<Delta>) {
    let mut decoder = dialect(wire).decoder(MODEL);
    let mut deltas = Vec::new();
    for data in events {
        let data = match data {
            Value::String(text) => text.clone(),
            data => data.to_string(),
        };
        let event = Event {
            name: "message",
            data: &data,
        };
        match decoder.event(event, &mut deltas) {
            Ok(None) => {}
            Ok(Some(reply)) => return (Ok(reply), deltas),
            Err(failure) => return (Err(failure), deltas),
        }
    }
    (decoder.end(), deltas)
}

pub(crate) fn read_reply(wire: Wire, events: &[Value]) -> ModelReply {
    read(wire, events).0.unwrap()
}

/// An Anthropic stream that brings these content blocks.
pub(crate) fn messages_stream(blocks: &[Value], stop_reason: &str) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message":
        {"model": MODEL, "usage": {"input_tokens": 3, "cache_read_input_tokens": 20,
         "cache_creation_input_tokens": 100, "output_tokens": 1}}})];
    for (index, block) in blocks.iter().enumerate() {
        let mut start = block.clone();
        let mut deltas = Vec::new();
        for (key, delta_type) in [("text", "text_delta"), ("thinking", "thinking_delta")] {
            if let Some(text) = block.get(key).and_then(Value::as_str) {
                start[key] = json!("");
                deltas.extend(
                    text.chars()
                        .map(|piece| json!({"type": delta_type, key: piece.to_string()})),
                );
            }
        }
        if let Some(signature) = start.as_object_mut().unwrap().remove("signature") {
            deltas.push(json!({"type": "signature_delta", "signature": signature}));
        }
        if let Some(Value::Array(citations)) = start.as_object_mut().unwrap().remove("citations") {
            deltas.extend(
                citations
                    .into_iter()
                    .map(|citation| json!({"type": "citations_delta", "citation": citation})),
            );
        }
        if let Some(input) = block.get("input") {
            start["input"] = json!({});
            deltas.push(json!({"type": "input_json_delta", "partial_json": input.to_string()}));
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason},
        "usage": {"output_tokens": 9}}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

/// A Responses stream that brings these output items.
pub(crate) fn responses_stream(items: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({"type": "response.created", "response": {"model": MODEL}})];
    for (index, item) in items.iter().enumerate() {
        events.push(
            json!({"type": "response.output_item.added", "output_index": index,
            "item": item}),
        );
        events.push(
            json!({"type": "response.output_item.done", "output_index": index,
            "item": item}),
        );
    }
    events.push(json!({"type": "response.completed", "response":
        {"model": MODEL, "status": "completed", "output": items}}));
    events
}

/// A Chat Completions stream of these deltas.
pub(crate) fn chat_stream(deltas: &[Value], finish_reason: &str) -> Vec<Value> {
    let chunk = |delta: &Value, reason: Value| {
        json!({"model": MODEL, "choices":
            [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    let mut events: Vec<Value> = deltas
        .iter()
        .map(|delta| chunk(delta, Value::Null))
        .collect();
    events.push(chunk(&json!({}), json!(finish_reason)));
    events.push(json!("[DONE]"));
    events
}
