//! No stream makes a decoder panic, and what it gives can always be sent back.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use steadfast_core::limits::PARTS_PER_INPUT_MAX;
use steadfast_harness::wire::{Event, Wire};

use crate::support::{dialect, history_of, request, user};

const KEYS: [&str; 46] = [
    "type",
    "index",
    "message",
    "content_block",
    "delta",
    "text",
    "thinking",
    "signature",
    "id",
    "name",
    "input",
    "partial_json",
    "usage",
    "input_tokens",
    "stop_reason",
    "citations",
    "error",
    "choices",
    "content",
    "tool_calls",
    "function",
    "arguments",
    "finish_reason",
    "role",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "refusal",
    "output_index",
    "content_index",
    "summary_index",
    "item",
    "response",
    "output",
    "summary",
    "call_id",
    "status",
    "incomplete_details",
    "reason",
    "encrypted_content",
    "part",
    "model",
    "data",
    "tool_use_id",
    "extra_content",
    "function_call",
];

const WORDS: [&str; 42] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "server_tool_use",
    "web_search_tool_result",
    "text_delta",
    "thinking_delta",
    "signature_delta",
    "input_json_delta",
    "citations_delta",
    "compaction_delta",
    "end_turn",
    "max_tokens",
    "pause_turn",
    "stop",
    "tool_calls",
    "length",
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.reasoning_summary_text.delta",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "message",
    "reasoning",
    "function_call",
    "custom_tool_call",
    "mcp_call",
    "output_text",
    "reasoning.text",
    "{\"a\":",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..4).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        proptest::sample::select(&WORDS[..]).prop_map(Value::from),
        ".{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::vec((proptest::sample::select(&KEYS[..]), inner), 0..6).prop_map(
                |entries| {
                    let entries = entries
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value));
                    Value::Object(entries.collect::<Map<_, _>>())
                }
            ),
        ]
    })
}

/// An event that begins like a real one and goes on anyhow.
fn event() -> impl Strategy<Value = Value> {
    let block = (proptest::sample::select(&WORDS[..]), value()).prop_map(|(kind, rest)| {
        let mut block = rest.as_object().cloned().unwrap_or_default();
        block.insert("type".into(), json!(kind));
        Value::Object(block)
    });
    let kind = proptest::sample::select(&WORDS[..]);
    (kind, 0_u64..3, block, value(), value()).prop_map(|(kind, index, block, delta, rest)| {
        let mut event = rest.as_object().cloned().unwrap_or_default();
        for (key, value) in [
            ("type", json!(kind)),
            ("index", json!(index)),
            ("output_index", json!(index)),
            ("content_block", block.clone()),
            ("item", block.clone()),
            (
                "delta",
                if index == 0 {
                    delta.clone()
                } else {
                    block.clone()
                },
            ),
            ("response", json!({"output": [block], "usage": delta})),
            (
                "choices",
                json!([{"delta": delta, "finish_reason": "stop"}]),
            ),
        ] {
            event.entry(key).or_insert(value);
        }
        Value::Object(event)
    })
}

fn data() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => event().prop_map(|event| event.to_string()),
        2 => value().prop_map(|value| value.to_string()),
        1 => Just("[DONE]".to_owned()),
        1 => Just("{\"type\":\"message_stop\"}".to_owned()),
        1 => ".{0,8}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_stream_makes_a_decoder_panic(
        stream in proptest::collection::vec((proptest::sample::select(&WORDS[..]), data()), 0..24),
    ) {
        for wire in Wire::ALL {
            let dialect = dialect(wire);
            let mut decoder = dialect.decoder("m");
            let mut deltas = Vec::new();
            let mut reply = None;
            for (name, data) in &stream {
                match decoder.event(Event { name, data }, &mut deltas) {
                    Ok(None) => {}
                    Ok(Some(done)) => {
                        reply = Some(done);
                        break;
                    }
                    Err(_) => break,
                }
            }
            if let Some(reply) = reply.or_else(|| decoder.end().ok()) {
                prop_assert!(reply.parts.len() <= PARTS_PER_INPUT_MAX);
                let mut items = vec![user("a")];
                items.extend(history_of(&reply));
                items.push(user("b"));
                for other in Wire::ALL {
                    crate::support::dialect(other).encode(&request(items.clone()));
                }
            }
        }
    }
}
