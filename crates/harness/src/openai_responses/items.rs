//! One output item as parts of a reply.

use serde_json::{Map, Value, json};
use steadfast_core::content::{CallInput, ReplyPart};
use steadfast_core::input::ModelFailure;

use crate::failure;
use crate::json::{list_of, residue, take_text, text_of};
use crate::reply::{Draft, call_input};

/// Items that ask the client to run something which is no function: this server has no place for
/// their results, and a call without result would spoil the session.
const UNANSWERABLE: [&str; 4] = [
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
];

/// Whether an item is a call that takes a place among the reply's calls.
pub(super) fn is_call(kind: &str) -> bool {
    matches!(kind, "function_call" | "custom_tool_call")
}

/// The text that is shown of a reasoning item.
pub(super) fn shown_reasoning(item: &Value) -> String {
    let texts = |key: &str| -> Vec<&str> {
        list_of(item, key)
            .iter()
            .map(|part| text_of(part, "text"))
            .collect()
    };
    let summary = texts("summary");
    if summary.is_empty() {
        texts("content").concat()
    } else {
        summary.join("\n\n")
    }
}

/// Refuses replies with calls that nobody can answer.
pub(super) fn check_answerable(items: &[Map<String, Value>]) -> Result<(), ModelFailure> {
    let text = |item: &Map<String, Value>, key: &str| {
        item.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    for item in items {
        let kind = text(item, "type");
        if !UNANSWERABLE.contains(&kind.as_str()) {
            continue;
        }
        // A tool that the provider hosts brings its own result along.
        let id = text(item, "call_id");
        let is_answered = items.iter().any(|other| {
            text(other, "type").ends_with("_call_output") && text(other, "call_id") == id
        });
        if !is_answered {
            return Err(failure::fatal(
                "unsupported_call",
                format!(
                    "the model asks for a {kind}, which cannot be run here: take that tool out of the agent's options"
                ),
            ));
        }
    }
    Ok(())
}

/// Adds an item to a reply. `was_cut_off` says that the reply ended inside it.
pub(super) fn add(draft: &mut Draft, mut item: Map<String, Value>, was_cut_off: bool) {
    let kind = item
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    match kind.as_str() {
        "message" => add_message(draft, item),
        "reasoning" => {
            let native = Value::Object(item);
            draft.parts.push(ReplyPart::Reasoning {
                text: shown_reasoning(&native),
                native: Some(native),
            });
        }
        "function_call" => {
            let arguments = take_text(&mut item, "arguments");
            let input = call_input(&arguments, was_cut_off);
            add_call(draft, item, input);
        }
        "custom_tool_call" => {
            let text = take_text(&mut item, "input");
            add_call(draft, item, CallInput::Json(json!({"input": text})));
        }
        "mcp_call" => {
            let name = item
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let arguments = item.get("arguments").and_then(Value::as_str);
            let input = match call_input(arguments.unwrap_or_default(), false) {
                CallInput::Json(value) => value,
                CallInput::Malformed { text, .. } => Value::String(text),
            };
            let output = ["output", "error"].iter().find_map(|key| told(&item, key));
            add_provider_tool(draft, item, name, input, output);
        }
        "web_search_call" => {
            let input = told(&item, "action").unwrap_or_else(|| json!({}));
            add_provider_tool(draft, item, "web_search".to_owned(), input, None);
        }
        "file_search_call" => {
            let input = json!({"queries": told(&item, "queries")});
            let output = told(&item, "results");
            add_provider_tool(draft, item, "file_search".to_owned(), input, output);
        }
        "code_interpreter_call" => {
            let input = json!({"code": told(&item, "code")});
            let output = told(&item, "outputs");
            add_provider_tool(draft, item, "code_interpreter".to_owned(), input, output);
        }
        "image_generation_call" => {
            let name = "image_generation".to_owned();
            add_provider_tool(draft, item, name, json!({}), None);
        }
        _ => draft.parts.push(ReplyPart::Opaque {
            native: Value::Object(item),
        }),
    }
}

fn told(item: &Map<String, Value>, key: &str) -> Option<Value> {
    item.get(key).filter(|value| !value.is_null()).cloned()
}

fn add_message(draft: &mut Draft, mut item: Map<String, Value>) {
    let key_of = |part: &Value| match text_of(part, "type") {
        "output_text" => Some("text"),
        "refusal" => Some("refusal"),
        _ => None,
    };
    let content = match item.get("content") {
        Some(Value::Array(content)) if !content.is_empty() => content.clone(),
        _ => Vec::new(),
    };
    if content.is_empty() || content.iter().any(|part| key_of(part).is_none()) {
        let native = Value::Object(item);
        draft.parts.push(ReplyPart::Opaque { native });
        return;
    }
    item.remove("content");
    let mut item = residue(item, &["status"]);
    for (position, part) in content.into_iter().enumerate() {
        let key = key_of(&part).unwrap_or("text");
        let Value::Object(mut part) = part else {
            continue;
        };
        let text = take_text(&mut part, key);
        let mut native = Map::new();
        native.insert("part".into(), residue(part, &[]).unwrap_or_default());
        match item.take() {
            Some(item) => native.insert("item".into(), item),
            None => native.insert("position".into(), json!(position)),
        };
        draft.parts.push(ReplyPart::Text {
            text,
            native: Some(Value::Object(native)),
        });
    }
}

fn add_call(draft: &mut Draft, mut item: Map<String, Value>, input: CallInput) {
    let id = take_text(&mut item, "call_id");
    let name = take_text(&mut item, "name");
    draft.call(id, name, input, residue(item, &["status"]));
}

fn add_provider_tool(
    draft: &mut Draft,
    item: Map<String, Value>,
    name: String,
    input: Value,
    output: Option<Value>,
) {
    let id = item
        .get("id")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    draft.parts.push(ReplyPart::ProviderTool {
        id,
        name,
        input,
        output,
        native: Some(Value::Object(item)),
    });
}
