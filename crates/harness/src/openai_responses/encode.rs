//! Requests.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{CallInput, ReplyPart};

use crate::call_id::{shaped, tool_name};
use crate::json::{count_of, list_of, object, text_of};
use crate::openai_chat::cache_key;
use crate::options;
use crate::render::{self, Piece};
use crate::request::{
    History, ModelRequest, RequestCall, RequestItem, RequestResult, ToolDeclaration,
};
use crate::schema;

const ID_BYTES_MAX: usize = 64;
/// Keys that no option replaces.
const FIXED: [&str; 5] = [
    "model",
    "input",
    "instructions",
    "stream",
    "previous_response_id",
];

/// The body of a request. `label` marks the replies whose native parts this provider can read.
pub fn encode(request: &ModelRequest, label: &str) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("stream".into(), json!(true));
    body.insert("store".into(), json!(false));
    body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    body.insert("prompt_cache_key".into(), json!(cache_key(request)));
    if !request.instructions.trim().is_empty() {
        body.insert("instructions".into(), json!(request.instructions));
    }
    if let Some(limit) = request.output_tokens_max {
        body.insert("max_output_tokens".into(), json!(limit));
    }
    let tools: Vec<Value> = request.tools.iter().filter_map(tool).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Required => Some(json!("required")),
            ToolChoice::Tool(name) => Some(named(request, name)),
        };
        body.extend(choice.map(|choice| ("tool_choice".into(), choice)));
    }
    if let Some(schema) = schema::of_answer(request) {
        let format = json!({"type": "json_schema", "name": "answer", "schema": schema,
            "strict": false});
        body.insert("text".into(), json!({"format": format}));
    }
    options::merge(&mut body, &request.options, &FIXED);
    body.insert("input".into(), Value::Array(input(&request.items, label)));
    Value::Object(body)
}

/// The choice of one tool. One that the provider runs itself is named by its type.
fn named(request: &ModelRequest, name: &str) -> Value {
    let mut tools = request.tools.iter();
    let provider = tools
        .find(|tool| tool.name == name)
        .and_then(|tool| tool.provider.as_ref());
    match provider.and_then(|provider| provider.type_of("openai")) {
        Some("custom") => json!({"type": "custom", "name": name}),
        Some(kind) => json!({"type": kind}),
        None => json!({"type": "function", "name": name}),
    }
}

fn tool(tool: &ToolDeclaration) -> Option<Value> {
    let Some(provider) = &tool.provider else {
        let (parameters, description) = schema::shaped(tool);
        // Left out, strictness is on, and most schemas are not made for it.
        return Some(
            json!({"type": "function", "name": tool.name, "description": description,
            "parameters": parameters, "strict": false}),
        );
    };
    let kind = provider.type_of("openai")?;
    let mut encoded = object(Some(&provider.options));
    encoded.insert("type".into(), json!(kind));
    if kind == "custom" {
        // The one of its tools that is named by who uses it.
        encoded.insert("name".into(), json!(tool.name));
        encoded.insert("description".into(), json!(tool.description));
    }
    Some(Value::Object(encoded))
}

fn input(items: &History, label: &str) -> Vec<Value> {
    let mut input = Input::default();
    for item in items.iter() {
        match item {
            RequestItem::User { parts } => {
                let mut content: Vec<Value> =
                    render::content(parts).into_iter().map(part).collect();
                if content.is_empty() {
                    content.push(text_part("(empty message)"));
                }
                let message = json!({"type": "message", "role": "user", "content": content});
                input.list.push(message);
            }
            RequestItem::Reply {
                wire, parts, calls, ..
            } if wire == label => input.native_reply(parts, calls),
            RequestItem::Reply { parts, calls, .. } => input.foreign_reply(parts, calls),
            RequestItem::Results { results } => {
                for result in results {
                    input.result(result);
                }
            }
        }
    }
    input.list
}

#[derive(Default)]
struct Input {
    list: Vec<Value>,
    /// Calls whose arguments are a plain text; their results have a type of their own.
    custom_calls: BTreeSet<String>,
}

impl Input {
    /// The reply as this provider gave it, item by item.
    fn native_reply(&mut self, parts: &[ReplyPart], calls: &[RequestCall]) {
        let start = self.list.len();
        for part in parts {
            match part {
                ReplyPart::Text { text, native } => self.text(text, native.as_ref()),
                ReplyPart::Reasoning { native, .. } => {
                    self.list.extend(native.as_ref().and_then(reasoning));
                }
                ReplyPart::Call { index, native } => {
                    if let Some(call) = calls.get(usize::from(*index)) {
                        self.call(call, native.as_ref());
                    }
                }
                ReplyPart::ProviderTool { native, .. } => self.list.extend(native.clone()),
                ReplyPart::Opaque { native } => self.list.push(native.clone()),
            }
        }
        for (position, call) in calls.iter().enumerate() {
            let is_placed = parts.iter().any(|part| {
                matches!(part, ReplyPart::Call { index, .. } if usize::from(*index) == position)
            });
            if !is_placed {
                self.call(call, None);
            }
        }
        // An item whose id is known must come with the reasoning that led to it.
        let is_whole = parts.iter().all(|part| match part {
            ReplyPart::Reasoning { native, .. } => native.as_ref().and_then(reasoning).is_some(),
            _ => true,
        });
        if !is_whole {
            for item in self.list.iter_mut().skip(start) {
                if let Some(item) = item.as_object_mut() {
                    item.remove("id");
                }
            }
        }
    }

    /// A part of a message: the first of its item begins it, the others join it.
    fn text(&mut self, text: &str, native: Option<&Value>) {
        let Some(native) = native else {
            self.plain_text(text);
            return;
        };
        let mut part = object(native.get("part"));
        let key = if part.get("type") == Some(&json!("refusal")) {
            "refusal"
        } else {
            "text"
        };
        part.insert(key.into(), json!(text));
        if count_of(native, "position").unwrap_or(0) > 0
            && let Some(Value::Array(content)) = self
                .list
                .last_mut()
                .and_then(|item| item.get_mut("content"))
        {
            content.push(Value::Object(part));
            return;
        }
        let mut item = object(native.get("item"));
        item.remove("status");
        item.insert("content".into(), json!([part]));
        self.list.push(Value::Object(item));
    }

    fn plain_text(&mut self, text: &str) {
        if !text.trim().is_empty() {
            let message = json!({"type": "message", "role": "assistant", "content": text});
            self.list.push(message);
        }
    }

    fn call(&mut self, call: &RequestCall, native: Option<&Value>) {
        let id = shaped(&call.id, ID_BYTES_MAX);
        let mut item = object(native);
        item.remove("status");
        item.insert("call_id".into(), json!(id));
        item.insert("name".into(), json!(tool_name(&call.tool)));
        let is_custom = item.get("type") == Some(&json!("custom_tool_call"));
        if is_custom {
            let text = match &call.input {
                CallInput::Json(value) => text_of(value, "input").to_owned(),
                CallInput::Malformed { text, .. } => text.clone(),
            };
            item.insert("input".into(), json!(text));
            self.custom_calls.insert(id.into_owned());
        } else {
            let arguments = Value::Object(render::arguments(&call.input)).to_string();
            item.insert("type".into(), json!("function_call"));
            item.insert("arguments".into(), json!(arguments));
        }
        self.list.push(Value::Object(item));
    }

    /// The reply of another provider: what it said, then what it asked for.
    fn foreign_reply(&mut self, parts: &[ReplyPart], calls: &[RequestCall]) {
        self.plain_text(&render::joined_text(parts.iter()));
        for call in calls {
            self.call(call, None);
        }
    }

    fn result(&mut self, result: &RequestResult) {
        let id = shaped(&result.id, ID_BYTES_MAX);
        let mut content: Vec<Value> = render::output(&result.output, result.note.as_deref())
            .into_iter()
            .map(part)
            .collect();
        if result.output.is_error() {
            content.insert(0, text_part("Error:"));
        }
        let texts: Option<Vec<&str>> = content
            .iter()
            .map(|part| (text_of(part, "type") == "input_text").then(|| text_of(part, "text")))
            .collect();
        let output = match texts {
            Some(texts) => json!(texts.join("\n")),
            None => Value::Array(content),
        };
        let kind = if self.custom_calls.contains(id.as_ref()) {
            "custom_tool_call_output"
        } else {
            "function_call_output"
        };
        self.list
            .push(json!({"type": kind, "call_id": id, "output": output}));
    }
}

/// A reasoning item as it may be sent back: with its encrypted content, or from servers that do
/// not encrypt with its plain content. One with neither would only be looked up, and not found.
fn reasoning(native: &Value) -> Option<Value> {
    let mut item = object(Some(native));
    item.remove("status");
    let is_encrypted = !text_of(native, "encrypted_content").is_empty();
    if is_encrypted {
        item.remove("content");
    } else if list_of(native, "content").is_empty() {
        return None;
    }
    item.entry("summary").or_insert_with(|| json!([]));
    Some(Value::Object(item))
}

fn text_part(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn part(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => text_part(&text),
        Piece::File(file) if file.is_image() => {
            json!({"type": "input_image", "image_url": file.url()})
        }
        Piece::File(file) if file.is_pdf() => {
            let url = file.url();
            if url.starts_with("data:") {
                let name = file.name.unwrap_or("document.pdf");
                json!({"type": "input_file", "filename": name, "file_data": url})
            } else {
                json!({"type": "input_file", "file_url": url})
            }
        }
        Piece::File(file) => text_part(&file.words()),
    }
}
