//! What the scripted model says without a script.

use serde_json::{Map, Value};
use steadfast_core::content::{ContentPart, ToolOutput};

use crate::failure::cut;
use crate::request::{ModelRequest, RequestItem, RequestResult, ToolDeclaration};
use crate::scripted::script::{ScriptedCall, Step};

const CHUNKS: usize = 12;
const DELAY_SECONDS: f64 = 0.02;
/// Objects within objects of an example input.
const DEPTH_MAX: u32 = 4;
const SHOWN_BYTES_MAX: usize = 500;

/// The answer to whatever stands last.
pub(super) fn answer(request: &ModelRequest) -> Step {
    match request.items.last() {
        Some(RequestItem::Results { results }) => speak(told_results(results)),
        Some(RequestItem::User { parts }) => {
            let said = said(parts);
            let calls: Vec<ScriptedCall> = request
                .tools
                .iter()
                .filter(|tool| names(&said, &tool.name))
                .map(|tool| ScriptedCall {
                    tool: tool.name.clone(),
                    input: example(&tool.input_schema, None, &said, 0),
                })
                .collect();
            if calls.is_empty() {
                speak(greeting(&request.tools))
            } else {
                Step::calling(calls)
            }
        }
        _ => speak(greeting(&request.tools)),
    }
}

/// What it says instead of a summary.
pub(super) fn summary(request: &ModelRequest) -> Step {
    let bytes: usize = request
        .items
        .iter()
        .map(|item| match item {
            RequestItem::User { parts } => said(parts).len(),
            _ => 0,
        })
        .sum();
    Step::text(format!(
        "Summary by the scripted model: {bytes} bytes of conversation were condensed."
    ))
}

fn speak(text: String) -> Step {
    Step::spoken(text, CHUNKS, DELAY_SECONDS)
}

fn said(parts: &[ContentPart]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            ContentPart::Text { text } => Some(text.as_str()),
            ContentPart::Json { .. } | ContentPart::File { .. } => None,
        })
        .collect();
    texts.join("\n")
}

fn greeting(tools: &[ToolDeclaration]) -> String {
    let mut text = String::from(
        "Hello! I am the scripted model: I need no network and no key, and I say the same thing every time. ",
    );
    if tools.is_empty() {
        text.push_str("This agent has no tools to show. ");
    } else {
        text.push_str("Name one of these tools in a message and I call it:\n");
        for tool in tools {
            let first_line = tool.description.lines().next().unwrap_or_default();
            text.push_str(&format!("- {}: {}\n", tool.name, cut(first_line, 120)));
        }
    }
    text.push_str(
        "To decide what I do, send SCRIPT: and a JSON array, for example [{\"text\": \"Hi\"}].",
    );
    text
}

fn told_results(results: &[RequestResult]) -> String {
    let told: Vec<String> = results
        .iter()
        .map(|result| {
            let output = match &result.output {
                ToolOutput::Text { text } | ToolOutput::ErrorText { text } => text.clone(),
                ToolOutput::Json { value } | ToolOutput::ErrorJson { value } => value.to_string(),
                ToolOutput::Content { parts } => said(parts),
                ToolOutput::ExecutionDenied { reason } => match reason {
                    Some(reason) => format!("it was not allowed to run ({reason})"),
                    None => "it was not allowed to run".to_owned(),
                },
            };
            let verb = if result.output.is_error() {
                "failed"
            } else {
                "answered"
            };
            format!("{} {verb}: {}", result.tool, cut(&output, SHOWN_BYTES_MAX))
        })
        .collect();
    told.join("\n")
}

/// Whether a text names a tool, as it is spelled or with spaces, in any case.
fn names(said: &str, tool: &str) -> bool {
    let said = said.to_lowercase();
    let exact = tool.to_lowercase();
    let spaced = exact.replace(['_', '-'], " ");
    [exact, spaced].iter().any(|name| {
        said.match_indices(name.as_str()).any(|(start, found)| {
            let before = said.get(..start).and_then(|text| text.chars().last());
            let after = said
                .get(start + found.len()..)
                .and_then(|text| text.chars().next());
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// An input that a schema accepts, with words and numbers of the user where they fit.
fn example(schema: &Value, name: Option<&str>, said: &str, depth: u32) -> Value {
    let first = |key: &str| schema.get(key).and_then(Value::as_array)?.first().cloned();
    let fixed = [
        schema.get("const").cloned(),
        first("enum"),
        schema.get("default").cloned(),
        first("examples"),
    ];
    if let Some(value) = fixed.into_iter().flatten().next() {
        return value;
    }
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(schema) = first(choice) {
            return example(&schema, name, said, depth + 1);
        }
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or("null"),
        _ if schema.get("properties").is_some() || name.is_none() => "object",
        _ => "string",
    };
    match kind {
        "object" => Value::Object(example_object(schema, said, depth)),
        "array" => {
            let wanted = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            let item = schema.get("items").unwrap_or(&Value::Null);
            let items = (0..wanted.min(8)).map(|_| example(item, name, said, depth + 1));
            Value::Array(items.collect())
        }
        "integer" | "number" => number(schema, said),
        "boolean" => Value::Bool(true),
        "string" => Value::String(word(said).unwrap_or_else(|| name.unwrap_or("demo").to_owned())),
        _ => Value::Null,
    }
}

fn example_object(schema: &Value, said: &str, depth: u32) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array);
    required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| {
            let property = schema
                .get("properties")
                .and_then(|properties| properties.get(name))
                .unwrap_or(&Value::Null);
            let value = example(property, Some(name), said, depth + 1);
            (name.to_owned(), value)
        })
        .collect()
}

/// The first word that is a number; digits within a word, such as an order's, are none.
fn number(schema: &Value, said: &str) -> Value {
    let told = said
        .split_whitespace()
        .map(|word| word.trim_matches(|character: char| !character.is_alphanumeric()))
        .find_map(|word| word.parse::<i64>().ok());
    let bound = |key: &str| schema.get(key).and_then(Value::as_i64);
    let mut value = told.or(bound("minimum")).unwrap_or(1);
    if let Some(minimum) = bound("minimum") {
        value = value.max(minimum);
    }
    if let Some(maximum) = bound("maximum") {
        value = value.min(maximum);
    }
    Value::from(value)
}

/// What stands in quotes; else the last word with a capital that does not begin the text.
fn word(said: &str) -> Option<String> {
    let mut pieces = said.split('"');
    let quoted = match (pieces.next(), pieces.next(), pieces.next()) {
        (Some(_), Some(inside), Some(_)) => Some(inside.trim()),
        _ => None,
    };
    let named = || {
        said.split_whitespace()
            .skip(1)
            .filter(|word| word.chars().next().is_some_and(char::is_uppercase))
            .map(|word| word.trim_matches(|character: char| !character.is_alphanumeric()))
            .last()
    };
    quoted
        .or_else(named)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}
