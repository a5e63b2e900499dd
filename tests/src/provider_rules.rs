//! What real providers refuse: requests whose history has no valid shape.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::provider_events::Wire;

/// The first rule that a request breaks; a provider answers it with 400.
pub fn violation(wire: Wire, body: &Value) -> Option<String> {
    let checked = match wire {
        Wire::Anthropic => messages(body),
        Wire::OpenAiChat => chat(body),
        Wire::OpenAiResponses => responses(body),
    };
    checked.err()
}

fn list<'a>(value: &'a Value, what: &str) -> Result<&'a Vec<Value>, String> {
    value
        .as_array()
        .ok_or_else(|| format!("{what}: not a list"))
}

fn text<'a>(value: &'a Value, what: &str) -> Result<&'a str, String> {
    let found = value.as_str().filter(|text| !text.is_empty());
    found.ok_or_else(|| format!("{what}: not a text, or empty"))
}

/// Ids that are used once.
#[derive(Default)]
struct Ids(BTreeSet<String>);

impl Ids {
    fn take(&mut self, id: &str) -> Result<(), String> {
        if self.0.insert(id.to_owned()) {
            Ok(())
        } else {
            Err(format!("the id {id} is used twice"))
        }
    }
}

/// Anthropic's Messages: results of a reply's calls stand first in the very next message.
fn messages(body: &Value) -> Result<(), String> {
    text(&body["model"], "model")?;
    if !body["max_tokens"].is_u64() {
        return Err("max_tokens: missing".to_owned());
    }
    let messages = list(&body["messages"], "messages")?;
    if messages.first().is_none_or(|first| first["role"] != "user") {
        return Err("messages: the first is not the user's".to_owned());
    }
    let mut ids = Ids::default();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let blocks = blocks(&message["content"], at)?;
        match message["role"].as_str() {
            Some("assistant") => {
                if !open.is_empty() {
                    return Err(format!("messages.{at}: no result for {open:?}"));
                }
                for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
                    let id = text(&block["id"], "tool_use.id")?;
                    text(&block["name"], "tool_use.name")?;
                    if !block["input"].is_object() {
                        return Err(format!("messages.{at}: tool_use.input is no object"));
                    }
                    ids.take(id)?;
                    open.insert(id.to_owned());
                }
            }
            Some("user") => {
                results_first(&blocks, at)?;
                for block in blocks.iter().filter(|block| block["type"] == "tool_result") {
                    let id = text(&block["tool_use_id"], "tool_result.tool_use_id")?;
                    if !open.remove(id) {
                        return Err(format!("messages.{at}: {id} was not called just before"));
                    }
                }
                if !open.is_empty() {
                    return Err(format!("messages.{at}: no result for {open:?}"));
                }
            }
            other => return Err(format!("messages.{at}: role {other:?}")),
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("messages: no result for {open:?}"))
    }
}

/// A message's blocks; a text alone is one block.
fn blocks(content: &Value, at: usize) -> Result<Vec<Value>, String> {
    if let Some(text) = content.as_str() {
        if text.trim().is_empty() {
            return Err(format!("messages.{at}: an empty text"));
        }
        return Ok(Vec::new());
    }
    let blocks = list(content, "content")?;
    if blocks.is_empty() {
        return Err(format!("messages.{at}: no content"));
    }
    for block in blocks.iter().filter(|block| block["type"] == "text") {
        if block["text"]
            .as_str()
            .is_none_or(|text| text.trim().is_empty())
        {
            return Err(format!("messages.{at}: an empty text"));
        }
    }
    Ok(blocks.clone())
}

fn results_first(blocks: &[Value], at: usize) -> Result<(), String> {
    let is_result = |block: &Value| block["type"] == "tool_result";
    let first_other = blocks.iter().position(|block| !is_result(block));
    let last_result = blocks.iter().rposition(is_result);
    match (first_other, last_result) {
        (Some(other), Some(result)) if other < result => {
            Err(format!("messages.{at}: results do not stand first"))
        }
        _ => Ok(()),
    }
}

/// OpenAI's Chat Completions: each call is answered by a `tool` message before anything else.
fn chat(body: &Value) -> Result<(), String> {
    text(&body["model"], "model")?;
    let messages = list(&body["messages"], "messages")?;
    if messages.is_empty() {
        return Err("messages: none".to_owned());
    }
    let mut ids = Ids::default();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = text(&message["tool_call_id"], "tool_call_id")?;
            if !open.remove(id) {
                return Err(format!("messages.{at}: {id} was not called just before"));
            }
            if message["content"].is_null() {
                return Err(format!("messages.{at}: a result without content"));
            }
            continue;
        }
        if !open.is_empty() {
            return Err(format!("messages.{at}: no result for {open:?}"));
        }
        match role {
            "system" | "developer" | "user" if message["content"].is_null() => {
                return Err(format!("messages.{at}: no content"));
            }
            "system" | "developer" | "user" => {}
            "assistant" => {
                let calls = message["tool_calls"].as_array();
                if calls.is_some_and(Vec::is_empty) {
                    return Err(format!("messages.{at}: an empty list of calls"));
                }
                if calls.is_none() && message["content"].is_null() {
                    return Err(format!("messages.{at}: neither content nor calls"));
                }
                for call in calls.into_iter().flatten() {
                    let id = text(&call["id"], "tool_calls.id")?;
                    text(&call["function"]["name"], "tool_calls.function.name")?;
                    if !call["function"]["arguments"].is_string() {
                        return Err(format!("messages.{at}: arguments are no text"));
                    }
                    ids.take(id)?;
                    open.insert(id.to_owned());
                }
            }
            other => return Err(format!("messages.{at}: role {other:?}")),
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("messages: no result for {open:?}"))
    }
}

/// OpenAI's Responses: each call has its output, each output its call before it.
fn responses(body: &Value) -> Result<(), String> {
    text(&body["model"], "model")?;
    let items = list(&body["input"], "input")?;
    if items.is_empty() {
        return Err("input: none".to_owned());
    }
    let mut ids = Ids::default();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        match item["type"].as_str() {
            Some("function_call") => {
                let id = text(&item["call_id"], "call_id")?;
                ids.take(id)?;
                open.insert(id.to_owned());
            }
            Some("function_call_output") => {
                let id = text(&item["call_id"], "call_id")?;
                if !open.remove(id) {
                    return Err(format!("input.{at}: {id} was not called before"));
                }
            }
            _ => {}
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("input: no output for {open:?}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn anthropic(messages: &Value) -> Option<String> {
        let body = json!({ "model": "m", "max_tokens": 10, "messages": messages });
        violation(Wire::Anthropic, &body)
    }

    fn openai(messages: &Value) -> Option<String> {
        let body = json!({ "model": "m", "messages": messages });
        violation(Wire::OpenAiChat, &body)
    }

    #[test]
    fn anthropic_wants_results_first_in_the_next_message() {
        let user = json!({ "role": "user", "content": "hello" });
        let call = json!({ "role": "assistant", "content": [
            { "type": "tool_use", "id": "a", "name": "pay", "input": {} },
        ]});
        let result = json!({ "type": "tool_result", "tool_use_id": "a", "content": "ok" });
        let note = json!({ "type": "text", "text": "by the way" });
        let good = json!({ "role": "user", "content": [result, note] });
        assert_eq!(anthropic(&json!([user, call, good])), None);
        let late = json!({ "role": "user", "content": [note, result] });
        for broken in [
            json!([call]),
            json!([user, call]),
            json!([user, call, user]),
            json!([user, call, late]),
            json!([user, call, good, call, good]),
            json!([user, good]),
            json!([{ "role": "user", "content": [] }]),
            json!([{ "role": "user", "content": " " }]),
        ] {
            assert!(anthropic(&broken).is_some(), "{broken} was taken");
        }
    }

    #[test]
    fn chat_wants_each_call_answered_before_anything_else() {
        let user = json!({ "role": "user", "content": "hello" });
        let function = json!({ "name": "pay", "arguments": "{}" });
        let call = json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": "a", "type": "function", "function": function },
        ]});
        let result = json!({ "role": "tool", "tool_call_id": "a", "content": "ok" });
        assert_eq!(openai(&json!([user, call, result, user])), None);
        for broken in [
            json!([]),
            json!([user, call]),
            json!([user, call, user, result]),
            json!([user, result]),
            json!([user, call, result, call, result]),
            json!([{ "role": "assistant", "content": null }]),
        ] {
            assert!(openai(&broken).is_some(), "{broken} was taken");
        }
    }

    #[test]
    fn responses_wants_an_output_for_each_call() {
        let call = json!({ "type": "function_call", "call_id": "a", "name": "pay" });
        let output = json!({ "type": "function_call_output", "call_id": "a", "output": "ok" });
        let check = |input: &Value| {
            violation(
                Wire::OpenAiResponses,
                &json!({ "model": "m", "input": input }),
            )
        };
        assert_eq!(check(&json!([call, output])), None);
        for broken in [json!([call]), json!([output, call]), json!([])] {
            assert!(check(&broken).is_some(), "{broken} was taken");
        }
    }
}
