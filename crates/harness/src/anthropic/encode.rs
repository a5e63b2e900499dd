//! Requests.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{FileSource, ReplyPart};

use crate::anthropic::{cache, fold, model};
use crate::call_id::{shaped, tool_name};
use crate::json::{object, text_of};
use crate::options;
use crate::render::{self, File, Piece};
use crate::request::{
    History, ModelRequest, RequestCall, RequestItem, RequestResult, ToolDeclaration,
};
use crate::schema;

const ID_BYTES_MAX: usize = 64;
/// Keys that no option replaces.
const FIXED: [&str; 4] = ["model", "messages", "system", "stream"];

/// The body of a request. `label` marks the replies whose native parts this provider can read.
pub fn encode(request: &ModelRequest, label: &str) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("stream".into(), json!(true));
    if !request.instructions.trim().is_empty() {
        let system = json!([{"type": "text", "text": request.instructions}]);
        body.insert("system".into(), system);
    }
    let tools: Vec<Value> = request.tools.iter().filter_map(tool).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some(json!({"type": "none"})),
            ToolChoice::Required => Some(json!({"type": "any"})),
            ToolChoice::Tool(name) => Some(json!({"type": "tool", "name": name})),
        };
        body.extend(choice.map(|choice| ("tool_choice".into(), choice)));
    }
    let messages = messages(&request.items, label);
    options::merge(&mut body, &request.options, &FIXED);
    output_limit(&mut body, request);
    if !starts_with_thinking(&messages) {
        drop_forced_thinking(&mut body);
    }
    model::tolerate_changed_history(&mut body, &request.model);
    body.insert("messages".into(), Value::Array(messages));
    cache::set_breakpoints(&mut body);
    Value::Object(body)
}

/// The wire wants a limit, and one above the budget for thinking.
fn output_limit(body: &mut Map<String, Value>, request: &ModelRequest) {
    let budget = body
        .get("thinking")
        .and_then(|thinking| thinking.get("budget_tokens"))
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let default = model::output_tokens_default(&request.model);
    match request.output_tokens_max {
        Some(limit) => {
            body.insert("max_tokens".into(), json!(limit));
        }
        None if body.contains_key("max_tokens") => {}
        None => {
            let limit = default.max(budget.saturating_add(8_192).min(64_000));
            body.insert("max_tokens".into(), json!(limit));
        }
    }
}

fn tool(tool: &ToolDeclaration) -> Option<Value> {
    let Some(provider) = &tool.provider else {
        let (schema, description) = schema::shaped(tool);
        let mut encoded = json!({"name": tool.name, "input_schema": schema});
        if let (Some(object), false) = (encoded.as_object_mut(), description.is_empty()) {
            object.insert("description".into(), json!(description));
        }
        return Some(encoded);
    };
    let kind = provider.type_of("anthropic")?;
    let mut encoded = object(Some(&provider.options));
    encoded.insert("type".into(), json!(kind));
    encoded.insert("name".into(), json!(tool.name));
    Some(Value::Object(encoded))
}

/// Messages with alternating roles, the first and the last the user's.
fn messages(items: &History, label: &str) -> Vec<Value> {
    let mut messages = Messages::default();
    let mut paused = false;
    for item in items.iter() {
        paused = false;
        match item {
            RequestItem::User { parts } => {
                let mut blocks: Vec<Value> =
                    render::content(parts).into_iter().map(block).collect();
                if blocks.is_empty() {
                    blocks.push(text_block("(empty message)"));
                }
                messages.add("user", blocks);
            }
            RequestItem::Results { results } => {
                messages.add("user", results.iter().map(result_block).collect());
            }
            RequestItem::Reply {
                wire, parts, calls, ..
            } => {
                let blocks = if wire == label {
                    paused = parts
                        .iter()
                        .any(|part| matches!(part, ReplyPart::ProviderTool { .. }));
                    native_blocks(parts, calls)
                } else {
                    foreign_blocks(parts, calls)
                };
                messages.add("assistant", blocks);
            }
        }
    }
    let last_is_paused = paused && messages.last_role() == Some("assistant");
    drop_unanswered(&mut messages.list, last_is_paused);
    // A last message of the assistant is only taken to go on where the provider itself paused.
    if messages.last_role() == Some("assistant") && !paused {
        messages.add("user", vec![text_block("Continue.")]);
    }
    messages.list
}

/// Takes out calls of the provider's own tools that have no result: they are only understood at
/// the end of a history, where the provider paused.
fn drop_unanswered(messages: &mut [Value], last_is_paused: bool) {
    let count = messages.len();
    for (position, message) in messages.iter_mut().enumerate() {
        if last_is_paused && position + 1 == count {
            continue;
        }
        let Some(Value::Array(content)) = message.get_mut("content") else {
            continue;
        };
        let answered: BTreeSet<String> = content
            .iter()
            .filter(|block| text_of(block, "type") != "tool_result")
            .map(|block| text_of(block, "tool_use_id").to_owned())
            .collect();
        content.retain(|block| {
            let is_call = matches!(text_of(block, "type"), "server_tool_use" | "mcp_tool_use");
            !is_call || answered.contains(text_of(block, "id"))
        });
        if content.is_empty() {
            content.push(text_block("(A tool of the provider did not finish.)"));
        }
    }
}

#[derive(Default)]
struct Messages {
    list: Vec<Value>,
}

impl Messages {
    fn last_role(&self) -> Option<&str> {
        self.list.last()?.get("role")?.as_str()
    }

    fn add(&mut self, role: &str, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        if self.list.is_empty() && role == "assistant" {
            self.add("user", vec![text_block("(The conversation begins.)")]);
        }
        if self.last_role() == Some(role)
            && let Some(Value::Array(content)) = self
                .list
                .last_mut()
                .and_then(|message| message.get_mut("content"))
        {
            content.extend(blocks);
            return;
        }
        self.list.push(json!({"role": role, "content": blocks}));
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn block(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => text_block(&text),
        Piece::File(file) if file.is_image() => json!({"type": "image", "source": source(&file)}),
        Piece::File(file) if file.is_pdf() => {
            let mut document = json!({"type": "document", "source": source(&file)});
            if let (Some(object), Some(name)) = (document.as_object_mut(), file.name) {
                object.insert("title".into(), json!(name));
            }
            document
        }
        Piece::File(file) => text_block(&file.words()),
    }
}

fn source(file: &File<'_>) -> Value {
    match file.source {
        FileSource::Url { url } => json!({"type": "url", "url": url}),
        FileSource::Base64 { data } => {
            let media_type = match file.media_type {
                "image/jpg" => "image/jpeg",
                other => other,
            };
            json!({"type": "base64", "media_type": media_type, "data": data})
        }
    }
}

fn result_block(result: &RequestResult) -> Value {
    let content: Vec<Value> = render::output(&result.output, result.note.as_deref())
        .into_iter()
        .map(block)
        .collect();
    let mut encoded = json!({
        "type": "tool_result",
        "tool_use_id": shaped(&result.id, ID_BYTES_MAX),
        "content": content,
    });
    if let (Some(object), true) = (encoded.as_object_mut(), result.output.is_error()) {
        object.insert("is_error".into(), json!(true));
    }
    encoded
}

/// The reply as this provider gave it, block by block.
fn native_blocks(parts: &[ReplyPart], calls: &[RequestCall]) -> Vec<Value> {
    let mut blocks = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            ReplyPart::Text { text, native } => {
                for (text, rest) in fold::unfold(text, native.as_ref()) {
                    // The provider gives blank texts but takes none.
                    if text.trim().is_empty() {
                        continue;
                    }
                    let mut block = object(rest);
                    block.insert("type".into(), json!("text"));
                    block.insert("text".into(), json!(text));
                    blocks.push(Value::Object(block));
                }
            }
            // Thinking without its signature would be refused.
            ReplyPart::Reasoning {
                text,
                native: Some(native),
            } if native.get("signature").is_some() => {
                let mut block = object(Some(native));
                block.insert("type".into(), json!("thinking"));
                block.insert("thinking".into(), json!(text));
                blocks.push(Value::Object(block));
            }
            ReplyPart::Reasoning { .. } => {}
            ReplyPart::Call { index, native } => {
                if let Some(call) = calls.get(usize::from(*index)) {
                    blocks.push(call_block(call, native.as_ref()));
                }
            }
            ReplyPart::ProviderTool {
                id,
                name,
                input,
                output,
                native: Some(native),
            } => {
                let mut asked = object(native.get("use"));
                asked.insert("id".into(), json!(id));
                asked.insert("name".into(), json!(name));
                asked.insert("input".into(), input.clone());
                blocks.push(Value::Object(asked));
                if let (Some(answered), Some(output)) = (native.get("result"), output) {
                    let mut block = object(Some(answered));
                    block.insert("tool_use_id".into(), json!(id));
                    block.insert("content".into(), output.clone());
                    blocks.push(Value::Object(block));
                }
            }
            ReplyPart::ProviderTool { native: None, .. } => {}
            ReplyPart::Opaque { native } => blocks.push(native.clone()),
        }
    }
    blocks.extend(unplaced(parts, calls).map(|call| call_block(call, None)));
    blocks
}

/// The reply of another provider: what it said, then what it asked for.
fn foreign_blocks(parts: &[ReplyPart], calls: &[RequestCall]) -> Vec<Value> {
    let texts = parts.iter().filter_map(|part| match part {
        ReplyPart::Text { text, .. } if !text.trim().is_empty() => Some(text_block(text)),
        _ => None,
    });
    texts
        .chain(calls.iter().map(|call| call_block(call, None)))
        .collect()
}

/// Calls that no part gives a place.
fn unplaced<'a>(
    parts: &'a [ReplyPart],
    calls: &'a [RequestCall],
) -> impl Iterator<Item = &'a RequestCall> {
    calls
        .iter()
        .enumerate()
        .filter_map(move |(position, call)| {
            let is_placed = parts.iter().any(|part| {
            matches!(part, ReplyPart::Call { index, .. } if usize::from(*index) == position)
        });
            (!is_placed).then_some(call)
        })
}

fn call_block(call: &RequestCall, native: Option<&Value>) -> Value {
    let mut block = object(native);
    block.insert("type".into(), json!("tool_use"));
    block.insert("id".into(), json!(shaped(&call.id, ID_BYTES_MAX)));
    block.insert("name".into(), json!(tool_name(&call.tool)));
    block.insert(
        "input".into(),
        Value::Object(render::arguments(&call.input)),
    );
    Value::Object(block)
}

/// Whether the reply whose tool results stand last began with thinking; true if none do.
fn starts_with_thinking(messages: &[Value]) -> bool {
    let first_type = |message: &Value| {
        let content = message.get("content")?.as_array()?;
        Some(content.first()?.get("type")?.as_str()?.to_owned())
    };
    let mut first = None;
    for pair in messages.rchunks(2) {
        let [assistant, user] = pair else { break };
        if first_type(user).as_deref() != Some("tool_result") {
            break;
        }
        first = first_type(assistant);
    }
    first.is_none_or(|kind| kind == "thinking" || kind == "redacted_thinking")
}

/// With a fixed budget for thinking, a step must begin with thinking. One that another provider
/// began does not, so the model goes on without until the user speaks again.
fn drop_forced_thinking(body: &mut Map<String, Value>) {
    let forced = body
        .get("thinking")
        .and_then(|thinking| thinking.get("type"))
        .is_some_and(|kind| kind == "enabled");
    if forced {
        body.remove("thinking");
    }
}
