//! Servers that are compatible with Chat Completions, each in its own way.

use serde_json::{Value, json};
use steadfast_core::content::{CallInput, Finish, ProposedCall, ReplyPart, Stored};
use steadfast_harness::wire::Wire;

use crate::decode::{call, text};
use crate::support::{chat_stream, read_reply};

fn chat_calls(pieces: &[Value]) -> Vec<ProposedCall> {
    let deltas: Vec<Value> = pieces
        .iter()
        .map(|piece| json!({"tool_calls": piece}))
        .collect();
    let reply = read_reply(Wire::OpenAiChat, &chat_stream(&deltas, "stop"));
    assert_eq!(reply.finish, Finish::ToolCalls);
    reply.calls
}

#[test]
fn tool_calls_of_all_imitators_are_understood() {
    let a = json!({"city": "a"});
    let one = |id: &str| vec![call(id, "w", CallInput::Json(a.clone()))];
    let text = a.to_string();
    // In pieces, by index, as the original does it.
    let whole = json!([{"index": 0, "id": "c1", "type": "function", "function": {"name": "w", "arguments": ""}}]);
    let first = json!([{"index": 0, "function": {"arguments": text[..3]}}]);
    let second =
        json!([{"index": 0, "id": null, "function": {"name": null, "arguments": text[3..]}}]);
    assert_eq!(chat_calls(&[whole, first, second]), one("c1"));
    // Without id or index, arguments as an object.
    let bare = json!([{"function": {"name": "w", "arguments": a}}]);
    assert_eq!(chat_calls(std::slice::from_ref(&bare)), one(""));
    // Two such ones, in one piece or in two.
    let two = [one(""), one("")].concat();
    assert_eq!(chat_calls(&[bare.clone(), bare.clone()]), two);
    assert_eq!(chat_calls(&[json!([bare[0], bare[0]])]), two);
    // One object instead of a list.
    assert_eq!(chat_calls(&[bare[0].clone()]), one(""));
    // The same index for different calls.
    let same_index =
        |id: &str| json!([{"index": 0, "id": id, "function": {"name": "w", "arguments": text}}]);
    assert_eq!(
        chat_calls(&[same_index("c1"), same_index("c2")]),
        [one("c1"), one("c2")].concat()
    );
    // Id and name repeated with each piece, no index.
    let repeated = |text: &str| json!([{"id": "c1", "function": {"name": "w", "arguments": text}}]);
    assert_eq!(
        chat_calls(&[repeated(&text[..3]), repeated(&text[3..])]),
        one("c1")
    );
    // No arguments, null arguments, arguments as a text within the text.
    for (arguments, expected) in [
        (json!(""), json!({})),
        (json!(null), json!({})),
        (json!("null"), json!({})),
        (json!(a.to_string().replace('"', "\\\"")), Value::Null),
        (json!(json!(a.to_string()).to_string()), a.clone()),
    ] {
        let piece =
            json!([{"index": 0, "id": "c", "function": {"name": "w", "arguments": arguments}}]);
        let calls = chat_calls(&[piece]);
        match calls[0].input.inline().unwrap() {
            CallInput::Json(value) => assert_eq!(value, &expected),
            CallInput::Malformed { .. } => assert_eq!(Value::Null, expected),
        }
    }
}

#[test]
fn chat_ends_in_good_order_without_a_done_mark() {
    let mut events = chat_stream(&[json!({"content": "x"})], "stop");
    events.pop();
    assert_eq!(read_reply(Wire::OpenAiChat, &events).parts, [text("x")]);
}

#[test]
fn a_server_that_does_not_stream_is_understood() {
    let whole = json!({"model": "m", "choices": [{"message": {"role": "assistant", "content": "x",
        "refusal": null, "tool_calls": null}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let reply = read_reply(Wire::OpenAiChat, &[whole]);
    assert_eq!(
        (reply.parts, reply.usage.input_tokens),
        (vec![text("x")], 1)
    );
}

#[test]
fn typed_content_with_thinking_is_understood() {
    let thought =
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]});
    let said = json!({"content": [{"type": "text", "text": "x"}]});
    let reply = read_reply(Wire::OpenAiChat, &chat_stream(&[thought, said], "stop"));
    let reasoning = ReplyPart::Reasoning {
        text: "hm".into(),
        native: Some(json!({"field": "content"})),
    };
    assert_eq!(reply.parts, [Stored::Inline(reasoning), text("x")]);
}

#[test]
fn empty_reasoning_beside_calls_is_remembered_since_its_server_wants_it_back() {
    let call = json!({"index": 0, "id": "c", "function": {"name": "w", "arguments": "{}"}});
    let deltas = [
        json!({"reasoning_content": ""}),
        json!({"tool_calls": [call]}),
    ];
    let reply = read_reply(Wire::OpenAiChat, &chat_stream(&deltas, "tool_calls"));
    let reasoning = ReplyPart::Reasoning {
        text: String::new(),
        native: Some(json!({"field": "reasoning_content"})),
    };
    assert_eq!(reply.parts[1], Stored::Inline(reasoning));
    let idle = [json!({"reasoning_content": ""}), json!({"content": "x"})];
    let reply = read_reply(Wire::OpenAiChat, &chat_stream(&idle, "stop"));
    assert_eq!(reply.parts, [text("x")]);
}
