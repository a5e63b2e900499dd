//! What a provider gave goes back to it as it came.

use proptest::prelude::*;
use serde_json::{Value, json};
use steadfast_harness::wire::Wire;

use crate::support::{
    chat_stream, dialect, history_of, messages_stream, read_reply, request, responses_stream, user,
};

/// The history after the user's first message, as the wire encodes it.
fn replayed(wire: Wire, events: &[Value], list: &str) -> Vec<Value> {
    let reply = read_reply(wire, events);
    let mut items = vec![user("hello")];
    items.extend(history_of(&reply));
    if reply.calls.is_empty() {
        items.push(user("go on"));
    }
    let body = dialect(wire).encode(&request(items));
    body[list].as_array().unwrap().clone()
}

fn word() -> impl Strategy<Value = String> {
    "[a-zäß€ ]{0,6}[a-z]"
}

fn arguments() -> impl Strategy<Value = Value> {
    (word(), any::<i32>(), any::<bool>())
        .prop_map(|(text, number, flag)| json!({"city": text, "n": number, "deep": {"x": [flag]}}))
}

fn block() -> impl Strategy<Value = Vec<Value>> {
    prop_oneof![
        word().prop_map(|text| vec![json!({"type": "text", "text": text})]),
        (word(), word()).prop_map(|(text, cited)| vec![json!({"type": "text", "text": text,
            "citations": [{"type": "char_location", "cited_text": cited}]})]),
        (word(), word()).prop_map(|(text, signature)| vec![json!({"type": "thinking",
            "thinking": text, "signature": signature})]),
        word().prop_map(|data| vec![json!({"type": "redacted_thinking", "data": data})]),
        (arguments(), any::<u64>()).prop_map(|(input, id)| vec![json!({"type": "tool_use",
            "id": format!("toolu_{id}"), "name": "get_weather", "input": input,
            "caller": {"type": "direct"}})]),
        (word(), any::<u64>(), any::<bool>()).prop_map(|(query, id, between)| {
            let id = format!("srvtoolu_{id}");
            let asked = json!({"type": "server_tool_use", "id": id, "name": "web_search",
                "input": {"query": query}});
            let answer = json!({"type": "web_search_tool_result", "tool_use_id": id,
                "content": [{"type": "web_search_result", "encrypted_content": "x"}]});
            let text = json!({"type": "text", "text": "hm"});
            if between {
                vec![asked, text, answer]
            } else {
                vec![asked, answer]
            }
        }),
        word().prop_map(|id| vec![json!({"type": "container_upload", "file_id": id})]),
    ]
}

fn is_unique(items: &[Value], key: &str) -> bool {
    let ids: Vec<&Value> = items.iter().filter_map(|item| item.get(key)).collect();
    ids.iter()
        .enumerate()
        .all(|(position, id)| !ids[position + 1..].contains(id))
}

fn output_item() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        word().prop_map(|text| json!({"type": "output_text", "text": text,
            "annotations": [{"type": "url_citation", "url": "u"}], "logprobs": []})),
        word().prop_map(|text| json!({"type": "refusal", "refusal": text})),
    ];
    let content = proptest::collection::vec(part, 0..4);
    prop_oneof![
        (word(), any::<u64>(), content).prop_map(|(phase, id, content)| json!({
            "type": "message", "id": format!("msg_{id}"), "role": "assistant", "phase": phase,
            "content": content})),
        (proptest::collection::vec(word(), 0..3), any::<u64>()).prop_map(|(texts, id)| {
            let summary: Vec<Value> = texts
                .iter()
                .map(|text| json!({"type": "summary_text", "text": text}))
                .collect();
            json!({"type": "reasoning", "id": format!("rs_{id}"), "summary": summary,
                "encrypted_content": format!("enc{id}")})
        }),
        (arguments(), any::<u64>()).prop_map(|(input, id)| json!({
            "type": "function_call", "id": format!("fc_{id}"), "call_id": format!("call_{id}"),
            "name": "get_weather", "arguments": input.to_string(), "namespace": "n"})),
        (word(), any::<u64>()).prop_map(|(input, id)| json!({
            "type": "custom_tool_call", "id": format!("ctc_{id}"), "call_id": format!("call_{id}"),
            "name": "get_weather", "input": input})),
        (word(), any::<u64>()).prop_map(|(query, id)| json!({
            "type": "web_search_call", "id": format!("ws_{id}"), "status": "completed",
            "action": {"type": "search", "query": query}})),
        any::<u64>().prop_map(|id| json!({"type": "compaction", "id": format!("cmp_{id}"),
            "encrypted_content": "x"})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn messages_blocks_in_are_messages_blocks_out(
        blocks in proptest::collection::vec(block(), 1..8)
            .prop_map(|blocks| blocks.concat())
            .prop_filter("ids are unique", |blocks| is_unique(blocks, "id")),
    ) {
        let messages = replayed(Wire::Anthropic, &messages_stream(&blocks, "end_turn"), "messages");
        prop_assert_eq!(&messages[1]["content"], &Value::Array(blocks));
    }

    #[test]
    fn responses_items_in_are_responses_items_out(
        items in proptest::collection::vec(output_item(), 1..8)
            .prop_filter("ids are unique", |items| is_unique(items, "call_id") && is_unique(items, "id")),
    ) {
        let input = replayed(Wire::OpenAiResponses, &responses_stream(&items), "input");
        prop_assert_eq!(&input[1..=items.len()], &items[..]);
    }

    #[test]
    fn chat_messages_in_are_chat_messages_out(
        text in proptest::option::of(word()),
        reasoning in proptest::option::of((prop_oneof![Just("reasoning_content"), Just("reasoning")], word())),
        calls in proptest::collection::vec((arguments(), any::<bool>()), 1..4),
    ) {
        let calls: Vec<Value> = calls.into_iter().enumerate().map(|(index, (input, is_signed))| {
            let mut call = json!({"id": format!("call_{index}"), "type": "function",
                "function": {"name": "get_weather", "arguments": input.to_string()}});
            if is_signed {
                call["extra_content"] = json!({"google": {"thought_signature": "sig"}});
            }
            call
        }).collect();
        let mut expected = json!({"role": "assistant", "content": text, "tool_calls": calls});
        let mut deltas = Vec::new();
        if let Some((field, text)) = reasoning {
            expected[field] = json!(text);
            deltas.extend(text.chars().map(|piece| json!({field: piece.to_string()})));
        }
        deltas.push(json!({"content": text}));
        for (index, call) in calls.iter().enumerate() {
            let mut call = call.clone();
            call["index"] = json!(index);
            deltas.push(json!({"tool_calls": [call]}));
        }
        let messages = replayed(Wire::OpenAiChat, &chat_stream(&deltas, "tool_calls"), "messages");
        prop_assert_eq!(&messages[2], &expected);
    }
}

#[test]
fn structured_reasoning_goes_back_in_one_piece() {
    let deltas = [
        json!({"reasoning": "ab", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "ab"}]}),
        json!({"reasoning": "c", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "c", "signature": "s"}]}),
        json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "x"}]}),
        json!({"content": "hi"}),
    ];
    let messages = replayed(Wire::OpenAiChat, &chat_stream(&deltas, "stop"), "messages");
    assert_eq!(
        messages[2],
        json!({"role": "assistant", "content": "hi", "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "abc", "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "x"}]})
    );
}

#[test]
fn reasoning_that_cannot_go_back_is_left_out_with_the_ids_that_lean_on_it() {
    let items = [
        json!({"type": "reasoning", "id": "rs_1", "summary": []}),
        json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather",
            "arguments": "{}", "status": "completed"}),
    ];
    let input = replayed(Wire::OpenAiResponses, &responses_stream(&items), "input");
    assert_eq!(
        input[1],
        json!({"type": "function_call", "call_id": "call_1", "name": "get_weather",
            "arguments": "{}"})
    );
}

#[test]
fn a_status_does_not_go_back() {
    let items = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "status": "completed",
            "content": null, "encrypted_content": "e"}),
        json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}]}),
    ];
    let input = replayed(Wire::OpenAiResponses, &responses_stream(&items), "input");
    assert_eq!(
        input[1..3],
        [
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}),
            json!({"type": "message", "id": "msg_1", "role": "assistant",
                "content": [{"type": "output_text", "text": "hi", "annotations": []}]}),
        ]
    );
}

#[test]
fn malformed_arguments_go_back_as_an_object_on_each_wire() {
    let broken = "{\"city\": ";
    let wrapped = json!({"malformed_arguments": broken});
    let mut stream = messages_stream(
        &[json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": "?"})],
        "max_tokens",
    );
    for event in &mut stream {
        if event["delta"]["type"] == "input_json_delta" {
            event["delta"]["partial_json"] = json!(broken);
        }
    }
    let messages = replayed(Wire::Anthropic, &stream, "messages");
    assert_eq!(messages[1]["content"][0]["input"], wrapped);

    let call = json!({"index": 0, "id": "call_1", "function": {"name": "get_weather", "arguments": broken}});
    let stream = chat_stream(&[json!({"tool_calls": [call]})], "length");
    let messages = replayed(Wire::OpenAiChat, &stream, "messages");
    let function = &messages[2]["tool_calls"][0]["function"];
    assert_eq!(function["arguments"], json!(wrapped.to_string()));

    let item = json!({"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": broken});
    let input = replayed(Wire::OpenAiResponses, &responses_stream(&[item]), "input");
    assert_eq!(input[1]["arguments"], json!(wrapped.to_string()));
}

#[test]
fn a_paused_reply_goes_back_as_it_is_and_later_joins_its_end() {
    let asked = json!({"type": "server_tool_use", "id": "s1", "name": "web_search",
        "input": {"query": "q"}});
    let answer = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []});
    let paused = read_reply(
        Wire::Anthropic,
        &messages_stream(std::slice::from_ref(&asked), "pause_turn"),
    );
    let rest = [answer.clone(), json!({"type": "text", "text": "found"})];
    let ended = read_reply(Wire::Anthropic, &messages_stream(&rest, "end_turn"));
    let encode = |items| dialect(Wire::Anthropic).encode(&request(items))["messages"].clone();

    let mut items = vec![user("hello")];
    items.extend(history_of(&paused));
    let at_pause = encode(items.clone());
    assert_eq!(at_pause.as_array().unwrap().len(), 2);
    assert_eq!(at_pause[1]["content"], json!([asked]));

    let mut cut = items.clone();
    cut.push(user("never mind"));
    assert_eq!(
        encode(cut)[1]["content"],
        json!([{"type": "text", "text": "(A tool of the provider did not finish.)"}])
    );

    items.extend(history_of(&ended));
    items.push(user("thanks"));
    let [_, answer, found] = [
        asked.clone(),
        answer,
        json!({"type": "text", "text": "found"}),
    ];
    assert_eq!(encode(items)[1]["content"], json!([asked, answer, found]));
}
