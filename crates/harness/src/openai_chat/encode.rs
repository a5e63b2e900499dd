//! Requests.

use serde_json::{Map, Value, json};
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{BlobHash, ReplyPart};

use crate::call_id::{shaped, short, tool_name};
use crate::json::{object, text_of};
use crate::openai_chat::Dialect;
use crate::options;
use crate::render::{self, File, Piece};
use crate::request::{ModelRequest, RequestCall, RequestItem, RequestResult};
use crate::schema;

const ID_BYTES_MAX: usize = 40;
/// Keys that no option replaces.
const FIXED: [&str; 4] = ["model", "messages", "stream", "n"];

/// The body of a request. `label` marks the replies whose native parts this provider can read.
pub fn encode(request: &ModelRequest, label: &str, dialect: &Dialect) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("stream".into(), json!(true));
    if dialect.has_stream_options {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    if dialect.has_cache_key {
        body.insert("prompt_cache_key".into(), json!(cache_key(request)));
    }
    if let Some(limit) = request.output_tokens_max {
        body.insert(dialect.output_tokens_field.into(), json!(limit));
    }
    let tools: Vec<Value> = request
        .tools
        .iter()
        .filter(|tool| tool.provider.is_none())
        .map(|tool| {
            let (parameters, description) = schema::shaped(tool);
            let name = &tool.name;
            json!({"type": "function", "function":
                {"name": name, "description": description, "parameters": parameters}})
        })
        .collect();
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
        let choice = match &request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::None => Some(json!("none")),
            ToolChoice::Required => Some(json!("required")),
            ToolChoice::Tool(name) => Some(json!({"type": "function", "function": {"name": name}})),
        };
        body.extend(choice.map(|choice| ("tool_choice".into(), choice)));
    }
    if dialect.has_response_schema
        && let Some(schema) = schema::of_answer(request)
    {
        let format = json!({"type": "json_schema", "json_schema":
            {"name": "answer", "schema": schema, "strict": false}});
        body.insert("response_format".into(), format);
    }
    let messages = Value::Array(messages(request, label, dialect));
    options::merge(&mut body, &request.options, &FIXED);
    body.insert("messages".into(), messages);
    Value::Object(body)
}

/// A name for the provider's cache that tells nothing of the session.
pub(crate) fn cache_key(request: &ModelRequest) -> String {
    let mut key = BlobHash::of(request.session.to_string().as_bytes()).to_string();
    key.truncate(32);
    key
}

fn messages(request: &ModelRequest, label: &str, dialect: &Dialect) -> Vec<Value> {
    let mut messages = Messages {
        dialect,
        list: Vec::new(),
    };
    if !request.instructions.trim().is_empty() {
        let system = json!({"role": "system", "content": request.instructions});
        messages.list.push(system);
    }
    for item in request.items.iter() {
        match item {
            RequestItem::User { parts } => {
                messages.user(render::content(parts).into_iter().map(part).collect());
            }
            RequestItem::Reply {
                wire, parts, calls, ..
            } => messages.reply(parts, calls, wire == label),
            RequestItem::Results { results } => messages.results(results),
        }
    }
    if messages.last_role() == Some("assistant") {
        messages.user(vec![text_part("Continue.")]);
    }
    messages.list
}

struct Messages<'a> {
    dialect: &'a Dialect,
    list: Vec<Value>,
}

impl Messages<'_> {
    fn last_role(&self) -> Option<&str> {
        self.list.last()?.get("role")?.as_str()
    }

    /// Adds to the user's last message, or begins one: some servers insist on alternation.
    fn user(&mut self, mut parts: Vec<Value>) {
        if parts.is_empty() {
            parts.push(text_part("(empty message)"));
        }
        if self.last_role() == Some("tool") && self.dialect.wants_reply_after_tools {
            let reply = json!({"role": "assistant", "content": "Understood."});
            self.list.push(reply);
        }
        if self.last_role() == Some("user")
            && let Some(Value::Object(message)) = self.list.last_mut()
        {
            let mut all = match message.remove("content") {
                Some(Value::String(text)) => vec![text_part(&text)],
                Some(Value::Array(parts)) => parts,
                _ => Vec::new(),
            };
            all.extend(parts);
            message.insert("content".into(), simplest(all));
            return;
        }
        let message = json!({"role": "user", "content": simplest(parts)});
        self.list.push(message);
    }

    fn reply(&mut self, parts: &[ReplyPart], calls: &[RequestCall], is_native: bool) {
        let mut message = Map::new();
        let is_refusal = |part: &&ReplyPart| {
            is_native
                && matches!(part, ReplyPart::Text { native: Some(native), .. }
                    if native.get("refusal").is_some())
        };
        let text = render::joined_text(parts.iter().filter(|part| !is_refusal(part)));
        let refusal = render::joined_text(parts.iter().filter(is_refusal));
        if text.is_empty() && refusal.is_empty() && calls.is_empty() {
            return;
        }
        let content = if text.is_empty() {
            Value::Null
        } else {
            Value::String(text)
        };
        message.insert("role".into(), json!("assistant"));
        message.insert("content".into(), content);
        if !refusal.is_empty() {
            message.insert("refusal".into(), json!(refusal));
        }
        if is_native {
            native_fields(&mut message, parts, self.dialect.replays_reasoning);
        }
        if !calls.is_empty() {
            let encoded = calls
                .iter()
                .enumerate()
                .map(|(position, call)| {
                    let native = is_native.then(|| native_of(parts, position)).flatten();
                    self.call(call, native, position == 0)
                })
                .collect();
            message.insert("tool_calls".into(), Value::Array(encoded));
            let tells_reasoning = message.contains_key("reasoning_content");
            if self.dialect.wants_reasoning && !tells_reasoning {
                message.insert("reasoning_content".into(), json!(""));
            }
        }
        self.list.push(Value::Object(message));
    }

    fn call(&self, call: &RequestCall, native: Option<&Value>, is_first: bool) -> Value {
        let mut encoded = object(native);
        if self.dialect.wants_signature && is_first && !encoded.contains_key("extra_content") {
            let unsigned =
                json!({"google": {"thought_signature": "skip_thought_signature_validator"}});
            encoded.insert("extra_content".into(), unsigned);
        }
        let arguments = Value::Object(render::arguments(&call.input)).to_string();
        let function = json!({"name": tool_name(&call.tool), "arguments": arguments});
        encoded.insert("id".into(), json!(self.id(&call.id)));
        encoded.insert("type".into(), json!("function"));
        encoded.insert("function".into(), function);
        Value::Object(encoded)
    }

    fn id(&self, id: &str) -> String {
        let id = if self.dialect.wants_short_ids {
            short(id)
        } else {
            shaped(id, ID_BYTES_MAX)
        };
        id.into_owned()
    }

    /// Results are texts on this wire; their files follow in a message of the user.
    fn results(&mut self, results: &[RequestResult]) {
        let mut files = Vec::new();
        for result in results {
            let mut texts = Vec::new();
            for piece in render::output(&result.output, result.note.as_deref()) {
                match piece {
                    Piece::File(file) if can_show(&file) => {
                        texts.push("[A file of this result follows.]".to_owned());
                        files.push(text_part(&format!(
                            "A file of a result of {}:",
                            result.tool
                        )));
                        files.push(part(piece));
                    }
                    Piece::File(file) => texts.push(file.words()),
                    Piece::Text(text) => texts.push(text),
                }
            }
            let mut content = texts.join("\n");
            if result.output.is_error() {
                content.insert_str(0, "Error: ");
            }
            let id = self.id(&result.id);
            let message = json!({"role": "tool", "tool_call_id": id, "content": content});
            self.list.push(message);
        }
        if !files.is_empty() {
            self.user(files);
        }
    }
}

/// What the server itself said beside text and functions, in its own fields.
fn native_fields(message: &mut Map<String, Value>, parts: &[ReplyPart], replays_reasoning: bool) {
    for part in parts {
        match part {
            ReplyPart::Text {
                native: Some(native),
                ..
            } => {
                if let Some(extra) = native.get("extra_content") {
                    message.insert("extra_content".into(), extra.clone());
                }
            }
            ReplyPart::Reasoning {
                text,
                native: Some(native),
            } if replays_reasoning => match (native.get("details"), text_of(native, "field")) {
                (Some(details), _) => {
                    message.insert("reasoning_details".into(), details.clone());
                }
                (None, "content") => {
                    let mut pieces = vec![json!({"type": "thinking",
                        "thinking": [{"type": "text", "text": text}]})];
                    if let Some(Value::String(text)) = message.get("content") {
                        pieces.push(text_part(text));
                    }
                    message.insert("content".into(), Value::Array(pieces));
                }
                (None, field @ ("reasoning_content" | "reasoning")) => {
                    message.insert(field.into(), json!(text));
                }
                _ => {}
            },
            _ => {}
        }
    }
}

fn native_of(parts: &[ReplyPart], position: usize) -> Option<&Value> {
    parts.iter().find_map(|part| match part {
        ReplyPart::Call { index, native } if usize::from(*index) == position => native.as_ref(),
        _ => None,
    })
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn can_show(file: &File<'_>) -> bool {
    file.is_image()
}

fn part(piece: Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => text_part(&text),
        Piece::File(file) if file.is_image() => {
            json!({"type": "image_url", "image_url": {"url": file.url()}})
        }
        Piece::File(file) if file.is_pdf() && file.url().starts_with("data:") => {
            let name = file.name.unwrap_or("document.pdf");
            json!({"type": "file", "file": {"filename": name, "file_data": file.url()}})
        }
        Piece::File(file) => text_part(&file.words()),
    }
}

/// Text alone as a string: not every server reads typed parts.
fn simplest(parts: Vec<Value>) -> Value {
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| (text_of(part, "type") == "text").then(|| text_of(part, "text")))
        .collect();
    match texts {
        Some(texts) => Value::String(texts.join("\n\n")),
        None => Value::Array(parts),
    }
}
