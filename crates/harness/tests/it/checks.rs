//! What each provider refuses, as checks on a request's body.

use std::collections::BTreeSet;

use serde_json::{Value, json};

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_name(value: &Value, bytes_max: usize) -> bool {
    let name = value.as_str().unwrap();
    (1..=bytes_max).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn assert_no_blank_text(blocks: &[Value]) {
    assert!(!blocks.is_empty());
    for block in blocks.iter().filter(|block| block["type"] == "text") {
        assert!(!block["text"].as_str().unwrap().trim().is_empty());
    }
}

fn ids<'a>(blocks: &'a [Value], kind: &str, key: &str) -> Vec<&'a str> {
    blocks
        .iter()
        .filter(|block| block["type"] == kind)
        .map(|block| block[key].as_str().unwrap())
        .collect()
}

pub(crate) fn check_messages(body: &Value) {
    let messages = list(body, "messages");
    assert_eq!(messages.first().unwrap()["role"], "user");
    assert_eq!(messages.last().unwrap()["role"], "user");
    let mut known = BTreeSet::new();
    let mut waiting: Vec<&str> = Vec::new();
    for (position, message) in messages.iter().enumerate() {
        let content = list(message, "content");
        assert_no_blank_text(content);
        assert_eq!(
            message["role"] == "user",
            position % 2 == 0,
            "roles alternate"
        );
        if message["role"] == "user" {
            let results = ids(content, "tool_result", "tool_use_id");
            assert_eq!(results, waiting, "each call has its result next");
            let first = content.iter().take(results.len());
            assert!(first.clone().all(|block| block["type"] == "tool_result"));
            for block in first {
                assert_no_blank_text(list(block, "content"));
            }
            waiting.clear();
        } else {
            assert!(
                ids(content, "server_tool_use", "id").is_empty(),
                "none is answered"
            );
            for block in content.iter().filter(|block| block["type"] == "thinking") {
                assert!(block["signature"].is_string());
            }
            waiting = ids(content, "tool_use", "id");
            for block in content.iter().filter(|block| block["type"] == "tool_use") {
                assert!(is_name(&block["id"], 64) && is_name(&block["name"], 64));
                assert!(block["input"].is_object());
                assert!(
                    known.insert(block["id"].as_str().unwrap()),
                    "ids are unique"
                );
            }
        }
    }
    assert!(body.to_string().matches("cache_control").count() <= 4);
}

pub(crate) fn check_chat(body: &Value, wants_short_ids: bool) {
    let messages = list(body, "messages");
    assert_eq!(messages[0]["role"], "system");
    let mut known = BTreeSet::new();
    let mut waiting: Vec<&str> = Vec::new();
    let mut before = "system";
    for message in &messages[1..] {
        let role = message["role"].as_str().unwrap();
        if role == "tool" {
            assert_eq!(message["tool_call_id"], waiting.remove(0));
            assert!(message["content"].is_string());
        } else {
            assert!(waiting.is_empty(), "each call has its result next");
            assert_ne!(role, before, "roles alternate");
        }
        if role == "user" {
            assert!(!(before == "tool" && wants_short_ids));
            assert!(!message["content"].is_null());
        }
        if role == "assistant" {
            let calls = list(message, "tool_calls");
            let has_text = message["content"].is_string() || message["content"].is_array();
            assert!(has_text || message["refusal"].is_string() || !calls.is_empty());
            for call in calls {
                assert!(is_name(&call["id"], if wants_short_ids { 9 } else { 40 }));
                assert!(is_name(&call["function"]["name"], 64));
                let arguments = call["function"]["arguments"].as_str().unwrap();
                assert!(
                    serde_json::from_str::<Value>(arguments)
                        .unwrap()
                        .is_object()
                );
                assert!(known.insert(call["id"].as_str().unwrap()), "ids are unique");
                waiting.push(call["id"].as_str().unwrap());
            }
        }
        before = role;
    }
    assert!(waiting.is_empty());
    assert_ne!(before, "assistant");
}

pub(crate) fn check_responses(body: &Value) {
    assert_eq!(
        (&body["store"], &body["stream"]),
        (&json!(false), &json!(true))
    );
    let mut known = BTreeSet::new();
    let mut waiting: Vec<&str> = Vec::new();
    for item in list(body, "input") {
        match item["type"].as_str().unwrap_or("message") {
            "function_call" => {
                let id = item["call_id"].as_str().unwrap();
                assert!(is_name(&item["call_id"], 64) && is_name(&item["name"], 64));
                let arguments = item["arguments"].as_str().unwrap();
                assert!(
                    serde_json::from_str::<Value>(arguments)
                        .unwrap()
                        .is_object()
                );
                assert!(known.insert(id), "ids are unique");
                waiting.push(id);
            }
            "function_call_output" => {
                assert_eq!(item["call_id"], waiting.remove(0));
                assert!(item["output"].is_string() || item["output"].is_array());
            }
            "reasoning" => assert!(item["encrypted_content"].is_string()),
            _ => {
                // A reply that goes on after its calls comes before their results.
                assert!(waiting.is_empty() || item["role"] != "user");
            }
        }
    }
    assert!(waiting.is_empty());
}
