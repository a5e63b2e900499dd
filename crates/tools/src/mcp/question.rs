//! What servers ask people: as a call's question, and its answer as the server is given it.

use std::collections::BTreeMap;

use rmcp::model::{ElicitRequestParams, InputRequest, InputRequiredResult};
use serde_json::{Map, Value, json};
use steadfast_core::call::Question;
use steadfast_core::content::ToolOutput;
use steadfast_core::limits::DETAIL_BYTES_MAX;

use crate::cut::cut;
use crate::schema::Schema;

/// The name of the one request of a server that holds its call open.
const ONLY: &str = "elicitation";
/// The state of such a question. What a server of the newer generation wants back never is this.
const HELD: &str = "\0held";

/// The question of a server that holds its call open meanwhile.
pub(super) fn held(params: &ElicitRequestParams) -> Question {
    let params = serde_json::to_value(params).unwrap_or_default();
    Question {
        requests: json!({ ONLY: { "method": "elicitation/create", "params": params } }),
        state: Some(HELD.to_owned()),
        problem: None,
    }
}

/// Whether a question is of a server that holds its call open.
pub(super) fn is_held(question: &Question) -> bool {
    question.state.as_deref() == Some(HELD)
}

/// The question of a server that ended its call with it; why it cannot be asked, if so.
pub(super) fn ended(result: &InputRequiredResult) -> Result<Question, String> {
    let requests = result.input_requests.clone().unwrap_or_default();
    for request in requests.values() {
        if !matches!(request, InputRequest::Elicitation(_)) {
            return Err("the MCP server asks for something that is not offered to it".to_owned());
        }
    }
    Ok(Question {
        requests: serde_json::to_value(requests).unwrap_or_default(),
        state: result.request_state.clone(),
        problem: None,
    })
}

/// An answer for each request, as the protocol has it, with the defaults of what was left out; or
/// what is wrong with it.
pub(super) fn answers(
    question: &Question,
    answer: &ToolOutput,
) -> Result<BTreeMap<String, Value>, String> {
    let none = Map::new();
    let requests = question.requests.as_object().unwrap_or(&none);
    let said = match answer {
        ToolOutput::Json { value } => value.clone(),
        ToolOutput::ErrorText { .. }
        | ToolOutput::ErrorJson { .. }
        | ToolOutput::ExecutionDenied { .. } => json!({ "action": "decline" }),
        ToolOutput::Text { .. } | ToolOutput::Content { .. } => return Err(form(requests)),
    };
    let mut answers = BTreeMap::new();
    for (id, request) in requests {
        let one = if said.get("action").is_some() {
            &said
        } else {
            said.get(id).ok_or_else(|| form(requests))?
        };
        answers.insert(id.clone(), one_answer(&request["params"], one, requests)?);
    }
    Ok(answers)
}

/// The one answer to a server that holds its call open.
pub(super) fn only(answers: &BTreeMap<String, Value>) -> Value {
    answers
        .get(ONLY)
        .cloned()
        .unwrap_or_else(|| json!({ "action": "cancel" }))
}

fn one_answer(
    params: &Value,
    said: &Value,
    requests: &Map<String, Value>,
) -> Result<Value, String> {
    match said.get("action").and_then(Value::as_str) {
        Some(action @ ("decline" | "cancel")) => return Ok(json!({ "action": action })),
        Some("accept") => {}
        _ => return Err(form(requests)),
    }
    let Some(schema) = params.get("requestedSchema") else {
        return Ok(json!({ "action": "accept" }));
    };
    let mut content = match said.get("content") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(content)) => content.clone(),
        Some(_) => return Err("`content` is not an object".to_owned()),
    };
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(default) = property.get("default") {
            content.entry(key).or_insert_with(|| default.clone());
        }
    }
    let content = Value::Object(content);
    if let Ok(schema) = Schema::compile(schema) {
        schema
            .check(&content)
            .map_err(|violation| cut(&format!("`content`: {violation}"), DETAIL_BYTES_MAX))?;
    }
    Ok(json!({ "action": "accept", "content": content }))
}

/// How an answer must look.
fn form(requests: &Map<String, Value>) -> String {
    let one = "{\"action\": \"accept\" | \"decline\" | \"cancel\", \"content\"?: {...}}";
    if requests.len() < 2 {
        return format!("an answer is {one}");
    }
    let ids: Vec<&str> = requests.keys().map(String::as_str).collect();
    cut(
        &format!(
            "an answer is {one}, or one such for each of {}",
            ids.join(", ")
        ),
        DETAIL_BYTES_MAX,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_completed_and_checked() {
        let schema = json!({
            "type": "object",
            "properties": {
                "size": { "type": "string", "enum": ["s", "m"] },
                "gift": { "type": "boolean", "default": true },
            },
            "required": ["size"],
        });
        let params = json!({ "message": "?", "requestedSchema": schema });
        let question = |ids: &[&str]| Question {
            requests: ids
                .iter()
                .map(|id| ((*id).to_owned(), json!({ "params": params })))
                .collect::<Map<_, _>>()
                .into(),
            state: None,
            problem: None,
        };
        let ask = |ids: &[&str], value: Value| answers(&question(ids), &value.into());
        let accepted = json!({ "action": "accept", "content": { "size": "s", "gift": true } });
        let given = json!({ "action": "accept", "content": { "size": "s" } });
        assert_eq!(
            ask(&["a"], given.clone()),
            Ok(BTreeMap::from([("a".to_owned(), accepted.clone())]))
        );
        let two = json!({ "a": given, "b": { "action": "decline", "content": 1 } });
        let declined = json!({ "action": "decline" });
        assert_eq!(
            ask(&["a", "b"], two),
            Ok(BTreeMap::from([
                ("a".to_owned(), accepted),
                ("b".to_owned(), declined)
            ]))
        );
        for wrong in [
            json!({ "action": "accept", "content": { "size": "x" } }),
            json!({ "action": "accept" }),
            json!({ "action": "yes" }),
            json!({ "a": 1 }),
            json!({ "content": { "size": "s" } }),
        ] {
            assert!(ask(&["a"], wrong.clone()).is_err(), "{wrong} was taken");
        }
        assert!(answers(&question(&["a"]), &ToolOutput::text("s")).is_err());
    }
}
