//! Input schemas in the shape that all providers take.

use serde_json::{Map, Value, json};

use crate::request::{ModelRequest, ToolDeclaration};

/// Keys that providers refuse at the top of an input schema.
const REFUSED: [&str; 7] = ["oneOf", "anyOf", "allOf", "not", "if", "then", "else"];

/// A tool's schema as an object with properties, and its description. What the shape cannot say
/// is said in the description: the input is checked against the whole schema before the tool runs.
pub(crate) fn shaped(tool: &ToolDeclaration) -> (Value, String) {
    let mut schema = tool.input_schema.as_object().cloned().unwrap_or_default();
    schema.remove("$schema");
    let mut rest = Map::new();
    for key in REFUSED {
        if let Some(value) = schema.remove(key) {
            rest.insert(key.to_owned(), value);
        }
    }
    schema.insert("type".into(), json!("object"));
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".into(), json!({}));
    }
    let mut description = tool.description.clone();
    if !rest.is_empty() {
        if !description.is_empty() {
            description.push_str("\n\n");
        }
        description.push_str("The input must also fit this JSON Schema: ");
        description.push_str(&Value::Object(rest).to_string());
    }
    (Value::Object(schema), description)
}

/// The schema of an answer in the shape that wires take which make a model keep to one: an object at
/// the top. Others are told in the instructions alone.
pub(crate) fn of_answer(request: &ModelRequest) -> Option<Value> {
    let mut schema = request.output_schema.as_ref()?.as_object()?.clone();
    schema.remove("$schema");
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    let is_plain = !REFUSED.iter().any(|key| schema.contains_key(*key));
    (is_object && is_plain).then_some(Value::Object(schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_object_schema_cannot_say_is_said_in_words() {
        let tool = ToolDeclaration {
            name: "t".into(),
            description: "Does it".into(),
            input_schema: json!({"$schema": "x", "oneOf": [{"required": ["a"]}]}),
            provider: None,
        };
        assert_eq!(
            shaped(&tool),
            (
                json!({"type": "object", "properties": {}}),
                "Does it\n\nThe input must also fit this JSON Schema: {\"oneOf\":[{\"required\":[\"a\"]}]}"
                    .to_owned()
            )
        );
    }
}
