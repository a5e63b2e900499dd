//! Streams, as each wire and its imitators send them.

use serde_json::{Value, json};
use steadfast_core::content::{
    CallInput, Finish, ModelReply, ProposedCall, ReplyPart, Stored, Usage,
};
use steadfast_core::input::FailureClass;
use steadfast_harness::wire::Wire;
use steadfast_protocol::live::Delta;

use crate::support::{
    MODEL, chat_stream, dialect, history_of, messages_stream, read, read_reply, request,
    responses_stream, user,
};

const AGAIN: FailureClass = FailureClass::Retryable {
    retry_after_ms: None,
};

pub(crate) fn call(id: &str, tool: &str, input: CallInput) -> ProposedCall {
    ProposedCall {
        provider_call_id: id.into(),
        tool: tool.into(),
        input: Stored::Inline(input),
    }
}

pub(crate) fn text(text: &str) -> Stored<ReplyPart> {
    Stored::Inline(ReplyPart::Text {
        text: text.into(),
        native: None,
    })
}

fn failure(wire: Wire, events: &[Value]) -> (FailureClass, String) {
    let failure = read(wire, events).0.unwrap_err();
    (failure.class, failure.code)
}

#[test]
fn messages_are_read_with_their_deltas_and_usage() {
    let blocks = [
        json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        json!({"type": "text", "text": "ok"}),
        json!({"type": "tool_use", "id": "t1", "name": "pay", "input": {"a": 1}}),
        json!({"type": "tool_use", "id": "t2", "name": "pay", "input": {}}),
    ];
    let (reply, deltas) = read(Wire::Anthropic, &messages_stream(&blocks, "tool_use"));
    let place = |index| {
        Stored::Inline(ReplyPart::Call {
            index,
            native: None,
        })
    };
    assert_eq!(
        reply.unwrap(),
        ModelReply {
            wire: "anthropic".into(),
            model: MODEL.into(),
            parts: vec![
                Stored::Inline(ReplyPart::Reasoning {
                    text: "hm".into(),
                    native: Some(json!({"signature": "s"})),
                }),
                text("ok"),
                place(0),
                place(1),
            ],
            calls: vec![
                call("t1", "pay", CallInput::Json(json!({"a": 1}))),
                call("t2", "pay", CallInput::Json(json!({}))),
            ],
            finish: Finish::ToolCalls,
            usage: Usage {
                input_tokens: 123,
                output_tokens: 9,
                cache_read_tokens: 20,
                cache_write_tokens: 100,
                reasoning_tokens: 0,
            },
        }
    );
    let input = |index, text: &str| Delta::ToolInput {
        index,
        tool: "pay".into(),
        text: text.into(),
    };
    let shown = |part, text: &str| Delta::Text {
        part,
        text: text.into(),
    };
    assert_eq!(
        deltas[2..],
        [
            shown(1, "o"),
            shown(1, "k"),
            input(0, "{\"a\":1}"),
            input(1, "{}")
        ]
    );
}

#[test]
fn a_provider_tool_and_its_result_are_one_part() {
    let blocks = [
        json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [1]}),
        json!({"type": "text", "text": "x"}),
    ];
    let (reply, deltas) = read(Wire::Anthropic, &messages_stream(&blocks, "end_turn"));
    let parts = reply.unwrap().parts;
    assert_eq!(
        parts[0].inline().unwrap(),
        &ReplyPart::ProviderTool {
            id: "s1".into(),
            name: "web_search".into(),
            input: json!({"query": "q"}),
            output: Some(json!([1])),
            native: Some(json!({"use": {"type": "server_tool_use"},
                "result": {"type": "web_search_tool_result"}})),
        }
    );
    assert_eq!(parts.len(), 2);
    let shown = Delta::Text {
        part: 1,
        text: "x".into(),
    };
    assert_eq!(deltas, [shown]);
}

#[test]
fn each_way_to_stop_is_told() {
    let block = [json!({"type": "text", "text": "x"})];
    for (reason, finish) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("refusal", Finish::Refusal),
        ("pause_turn", Finish::Other),
        ("new", Finish::Other),
    ] {
        let reply = read_reply(Wire::Anthropic, &messages_stream(&block, reason));
        assert_eq!(reply.finish, finish, "{reason}");
    }
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("length", Finish::Length),
        ("content_filter", Finish::Refusal),
        ("new", Finish::Other),
    ] {
        let stream = chat_stream(&[json!({"content": "x"})], reason);
        assert_eq!(
            read_reply(Wire::OpenAiChat, &stream).finish,
            finish,
            "{reason}"
        );
    }
    for (reason, finish) in [
        ("max_output_tokens", Finish::Length),
        ("content_filter", Finish::Refusal),
        ("new", Finish::Other),
    ] {
        let stream = [json!({"type": "response.incomplete", "response":
            {"status": "incomplete", "incomplete_details": {"reason": reason}}})];
        let reply = read_reply(Wire::OpenAiResponses, &stream);
        assert_eq!(reply.finish, finish, "{reason}");
    }
}

#[test]
fn an_early_end_is_a_broken_stream_on_each_wire() {
    let mut messages = messages_stream(&[json!({"type": "text", "text": "x"})], "end_turn");
    messages.pop();
    let chat = [json!({"choices": [{"delta": {"content": "x"}}]})];
    let chat_done = [chat[0].clone(), json!("[DONE]")];
    let mut responses = responses_stream(&[]);
    responses.pop();
    for (wire, events) in [
        (Wire::Anthropic, &messages[..]),
        (Wire::OpenAiChat, &chat),
        (Wire::OpenAiChat, &chat_done),
        (Wire::OpenAiResponses, &responses),
        (Wire::Anthropic, &[]),
        (Wire::OpenAiChat, &[]),
        (Wire::OpenAiResponses, &[]),
    ] {
        assert_eq!(
            failure(wire, events),
            (AGAIN, "broken_stream".into()),
            "{wire:?}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_a_broken_stream_and_not_passed_over() {
    let delta = json!({"type": "text_delta", "text": "x"});
    for events in [
        vec![json!("{\"type\": \"mess")],
        vec![json!({"type": "content_block_delta", "index": 0, "delta": delta})],
        vec![json!({"type": "content_block_start", "content_block": {"type": "text"}})],
        vec![json!({"type": "content_block_start", "index": 0})],
        vec![json!({"type": "content_block_stop", "index": 3})],
    ] {
        assert_eq!(
            failure(Wire::Anthropic, &events),
            (AGAIN, "broken_stream".into()),
            "{events:?}"
        );
    }
    let no_index = [json!({"type": "response.output_text.delta", "delta": "x"})];
    assert_eq!(failure(Wire::OpenAiResponses, &no_index).1, "broken_stream");
    assert_eq!(failure(Wire::OpenAiChat, &[json!("{")]).1, "broken_stream");
}

#[test]
fn what_is_new_is_passed_over() {
    let mut messages = messages_stream(&[json!({"type": "text", "text": "x"})], "end_turn");
    messages.insert(1, json!({"type": "brand_new"}));
    messages.insert(
        3,
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "new"}}),
    );
    assert_eq!(read_reply(Wire::Anthropic, &messages).parts, [text("x")]);
    let mut responses = responses_stream(&[json!({"type": "brand_new_item", "id": "x"})]);
    responses.insert(1, json!({"type": "response.brand_new"}));
    assert_eq!(
        read_reply(Wire::OpenAiResponses, &responses).parts,
        [Stored::Inline(ReplyPart::Opaque {
            native: json!({"type": "brand_new_item", "id": "x"})
        })]
    );
}

#[test]
fn errors_within_a_stream_are_classified() {
    let overloaded =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(
        failure(Wire::Anthropic, &[overloaded]),
        (AGAIN, "overloaded".into())
    );
    let chat = json!({"error": {"message": "boom", "code": 502}, "choices": []});
    assert_eq!(
        failure(Wire::OpenAiChat, &[chat]),
        (AGAIN, "server_error".into())
    );
    let failed = |code: &str| json!({"type": "response.failed", "response": {"error": {"code": code, "message": "m"}}});
    for (code, class, expected) in [
        ("server_error", AGAIN, "server_error"),
        ("rate_limit_exceeded", AGAIN, "rate_limited"),
        (
            "context_length_exceeded",
            FailureClass::ContextOverflow,
            "context_overflow",
        ),
        ("invalid_prompt", FailureClass::Fatal, "bad_request"),
    ] {
        assert_eq!(
            failure(Wire::OpenAiResponses, &[failed(code)]),
            (class, expected.into())
        );
    }
    let error = json!({"type": "error", "code": "server_error", "message": "m"});
    assert_eq!(
        failure(Wire::OpenAiResponses, &[error]),
        (AGAIN, "server_error".into())
    );
}

#[test]
fn a_call_that_was_cut_off_before_its_arguments_is_no_call_without_arguments() {
    let is_malformed = |reply: &ModelReply| {
        matches!(
            reply.calls[0].input.inline(),
            Some(CallInput::Malformed { .. })
        )
    };
    let piece = json!({"index": 0, "id": "c", "function": {"name": "w", "arguments": ""}});
    let stream = chat_stream(&[json!({"tool_calls": [piece]})], "length");
    assert!(is_malformed(&read_reply(Wire::OpenAiChat, &stream)));

    let block = json!({"type": "tool_use", "id": "t", "name": "w"});
    let stream = messages_stream(&[block], "max_tokens");
    assert!(is_malformed(&read_reply(Wire::Anthropic, &stream)));

    let item = json!({"type": "function_call", "call_id": "c", "name": "w", "arguments": ""});
    let mut stream = responses_stream(&[item]);
    let end = stream.last_mut().unwrap();
    end["type"] = json!("response.incomplete");
    assert!(is_malformed(&read_reply(Wire::OpenAiResponses, &stream)));
}

#[test]
fn responses_are_read_from_pieces_when_no_item_is_ever_told_whole() {
    let added = |index: u64, item: Value| json!({"type": "response.output_item.added", "output_index": index, "item": item});
    let events = [
        added(0, json!({"type": "reasoning", "id": "rs", "summary": []})),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "a"}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "b"}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "x"}),
        added(
            2,
            json!({"type": "function_call", "call_id": "c", "name": "w", "arguments": ""}),
        ),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"a\":1}"}),
        json!({"type": "response.completed", "response": {"usage": {"input_tokens": 4, "output_tokens": 3,
            "input_tokens_details": {"cached_tokens": 2}, "output_tokens_details": {"reasoning_tokens": 1}}}}),
    ];
    let (reply, deltas) = read(Wire::OpenAiResponses, &events);
    let reply = reply.unwrap();
    assert_eq!(reply.finish, Finish::ToolCalls);
    assert_eq!(
        reply.calls,
        [call("c", "w", CallInput::Json(json!({"a": 1})))]
    );
    let shown: Vec<&str> = reply
        .parts
        .iter()
        .filter_map(|part| match part.inline().unwrap() {
            ReplyPart::Text { text, .. } | ReplyPart::Reasoning { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, ["a\n\nb", "x"]);
    let thought = |text: &str| Delta::Reasoning {
        part: 0,
        text: text.into(),
    };
    assert_eq!(deltas[..3], [thought("a"), thought("\n\n"), thought("b")]);
    let usage = Usage {
        input_tokens: 4,
        output_tokens: 3,
        cache_read_tokens: 2,
        cache_write_tokens: 0,
        reasoning_tokens: 1,
    };
    assert_eq!(reply.usage, usage);
}

#[test]
fn the_last_event_stands_in_for_items_that_did_not_come() {
    let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]});
    let end = json!({"type": "response.completed", "response": {"output": [item]}});
    let reply = read_reply(Wire::OpenAiResponses, &[end]);
    assert!(matches!(reply.parts[0].inline(), Some(ReplyPart::Text { text, .. }) if text == "x"));
}

#[test]
fn a_call_that_nobody_can_answer_fails_the_reply() {
    let item = json!({"type": "local_shell_call", "call_id": "c", "action": {}});
    let answered = json!({"type": "shell_call", "call_id": "h"});
    let answer = json!({"type": "shell_call_output", "call_id": "h"});
    let stream = responses_stream(&[item]);
    assert_eq!(
        failure(Wire::OpenAiResponses, &stream),
        (FailureClass::Fatal, "unsupported_call".into())
    );
    let reply = read_reply(
        Wire::OpenAiResponses,
        &responses_stream(&[answered, answer]),
    );
    assert_eq!(reply.parts.len(), 2);
}

#[test]
fn a_reply_with_more_than_a_session_takes_is_asked_for_again() {
    let pieces: Vec<Value> = (0..300)
        .map(|index| json!({"index": index, "id": format!("c{index}"), "function": {"name": "w", "arguments": "{}"}}))
        .collect();
    let stream = chat_stream(&[json!({"tool_calls": pieces})], "tool_calls");
    assert_eq!(
        failure(Wire::OpenAiChat, &stream),
        (AGAIN, "reply_too_large".into())
    );
}

#[test]
fn a_reply_of_very_many_text_blocks_goes_back_block_by_block() {
    let blocks: Vec<Value> = (0..300)
        .map(|number| json!({"type": "text", "text": format!("ä{number}"), "citations": [number]}))
        .collect();
    let reply = read_reply(Wire::Anthropic, &messages_stream(&blocks, "end_turn"));
    assert_eq!(reply.parts.len(), 1);
    let mut items = vec![user("a")];
    items.extend(history_of(&reply));
    items.push(user("b"));
    let body = dialect(Wire::Anthropic).encode(&request(items));
    assert_eq!(body["messages"][1]["content"], Value::Array(blocks));
}
