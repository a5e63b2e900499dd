//! Replies, over each wire.

use serde_json::{Value, json};
use steadfast_core::content::{CallInput, Finish, ModelReply, ReplyPart, Usage};
use steadfast_harness::transport::HttpProvider;
use steadfast_protocol::live::Delta;
use steadfast_tests::provider_events::{Say, Wire};
use steadfast_tests::provider_server::{Answer, ProviderServer};

use crate::ask::{KEY, ask, ask_hello, history_of, options, provider, user};

fn texts(reply: &ModelReply) -> Vec<&str> {
    reply
        .parts
        .iter()
        .filter_map(|part| match part.inline().unwrap() {
            ReplyPart::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

fn shown(deltas: &[Delta]) -> String {
    deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

async fn said(wire: Wire, say: Say) -> ModelReply {
    let server = ProviderServer::start().await;
    server.says(say);
    ask_hello(&provider(&server, wire)).await.reply.unwrap()
}

#[tokio::test]
async fn a_request_carries_the_key_and_asks_for_a_stream() {
    for wire in Wire::ALL {
        let server = ProviderServer::start().await;
        server.says(Say::text("hi"));
        ask_hello(&provider(&server, wire)).await.reply.unwrap();
        let asked = &server.asked()[0];
        let (header, value) = match wire {
            Wire::Anthropic => ("x-api-key", KEY.to_owned()),
            _ => ("authorization", format!("Bearer {KEY}")),
        };
        assert_eq!(asked.header(header), Some(value.as_str()), "{wire:?}");
        assert_eq!(asked.body["stream"], json!(true));
        assert_eq!(asked.body["model"], "fake-model");
        let has_version = asked.header("anthropic-version").is_some();
        assert_eq!(has_version, wire == Wire::Anthropic);
    }
}

#[tokio::test]
async fn text_with_usage_comes_over_each_wire() {
    for wire in Wire::ALL {
        let server = ProviderServer::start().await;
        server.says(Say::text("Grüße, 世界 🌍").costing(100, 20));
        let answered = ask_hello(&provider(&server, wire)).await;
        let reply = answered.reply.unwrap();
        assert_eq!(texts(&reply), ["Grüße, 世界 🌍"], "{wire:?}");
        assert_eq!(shown(&answered.deltas), "Grüße, 世界 🌍");
        let usage = Usage {
            input_tokens: 100,
            output_tokens: 20,
            ..Usage::default()
        };
        assert_eq!((reply.finish, reply.usage), (Finish::Stop, usage));
        assert_eq!(
            (reply.wire.as_str(), reply.model.as_str()),
            (wire.kind(), "fake-model")
        );
    }
}

/// The same stream with other line ends and comments between its events.
fn disguised(events: &str) -> String {
    let events = events.replace("\n\n", "\n\n: keep alive\n\nid: 7\nretry: 10\n\n");
    events.replace('\n', "\r\n")
}

#[tokio::test]
async fn a_stream_may_come_in_any_pieces_and_line_ends() {
    let say = Say::text("Grüße 🌍")
        .after_reasoning("hm ü")
        .and_call("get_weather", &json!({"city": "Zürich"}));
    for wire in Wire::ALL {
        let server = ProviderServer::start().await;
        let expected = {
            server.says(say.clone());
            ask_hello(&provider(&server, wire)).await
        };
        let events = say.events(wire, 0);
        for piece_bytes in [1, 2, 3, 7, 64, usize::MAX] {
            for events in [events.clone(), disguised(&events)] {
                server.next(Answer::Events(events, piece_bytes));
                let answered = ask_hello(&provider(&server, wire)).await;
                assert_eq!(answered.reply, expected.reply, "{wire:?} by {piece_bytes}");
                assert_eq!(
                    answered.deltas, expected.deltas,
                    "{wire:?} by {piece_bytes}"
                );
            }
        }
    }
}

#[tokio::test]
async fn parallel_calls_and_reasoning_go_back_as_they_came() {
    for wire in Wire::ALL {
        let server = ProviderServer::start().await;
        let provider = provider(&server, wire);
        let say = Say::text("Let me see.")
            .after_reasoning("two cities")
            .and_call("get_weather", &json!({"city": "Oslo"}))
            .and_call("get_weather", &json!({"city": "Rome"}));
        server.says(say);
        server.says(Say::text("Sunny."));
        let first = ask_hello(&provider).await.reply.unwrap();
        assert_eq!(first.finish, Finish::ToolCalls);
        let cities: Vec<_> = first
            .calls
            .iter()
            .map(|call| call.input.inline().unwrap().clone())
            .collect();
        let city = |name: &str| CallInput::Json(json!({"city": name}));
        assert_eq!(cities, [city("Oslo"), city("Rome")], "{wire:?}");

        let mut items = vec![user("hello")];
        items.extend(history_of(&first));
        ask(&provider, items).await.reply.unwrap();
        let body = &server.asked()[1].body;
        match wire {
            Wire::Anthropic => check_messages(&body["messages"]),
            Wire::OpenAiChat => check_chat(&body["messages"]),
            Wire::OpenAiResponses => check_responses(&body["input"]),
        }
    }
}

fn check_messages(messages: &Value) {
    assert_eq!(
        messages[1]["content"],
        json!([
            {"type": "thinking", "thinking": "two cities", "signature": "sig_0"},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "toolu_0_0", "name": "get_weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "toolu_0_1", "name": "get_weather", "input": {"city": "Rome"}},
        ])
    );
    let result = |id: &str| {
        json!({"type": "tool_result", "tool_use_id": id,
            "content": [{"type": "text", "text": "sunny"}]})
    };
    let mut last = result("toolu_0_1");
    last["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(messages[2]["content"], json!([result("toolu_0_0"), last]));
}

fn check_chat(messages: &Value) {
    let call = |index: u32, arguments: &str| {
        json!({"id": format!("call_0_{index}"), "type": "function",
            "function": {"name": "get_weather", "arguments": arguments}})
    };
    assert_eq!(
        messages[2],
        json!({"role": "assistant", "content": "Let me see.", "reasoning_content": "two cities",
            "tool_calls": [call(0, r#"{"city":"Oslo"}"#), call(1, r#"{"city":"Rome"}"#)]})
    );
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "sunny"});
    assert_eq!(messages[3], result("call_0_0"));
    assert_eq!(messages[4], result("call_0_1"));
}

fn check_responses(input: &Value) {
    let call = |index: u32, arguments: &str| {
        json!({"type": "function_call", "id": format!("fc_0_{index}"),
            "call_id": format!("call_0_{index}"), "name": "get_weather", "arguments": arguments})
    };
    let result =
        |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "sunny"});
    let expected = [
        json!({"type": "reasoning", "id": "rs_0", "encrypted_content": "enc_0",
            "summary": [{"type": "summary_text", "text": "two cities"}]}),
        json!({"type": "message", "id": "msg_0", "role": "assistant", "phase": "final_answer",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}]}),
        call(0, r#"{"city":"Oslo"}"#),
        call(1, r#"{"city":"Rome"}"#),
        result("call_0_0"),
        result("call_0_1"),
    ];
    assert_eq!(input.as_array().unwrap()[1..], expected);
}

#[tokio::test]
async fn refusal_length_and_nothing_are_complete_replies() {
    for wire in Wire::ALL {
        let refusal = said(wire, Say::text("I won't.").and_refuses()).await;
        assert_eq!(
            (refusal.finish, texts(&refusal)),
            (Finish::Refusal, vec!["I won't."])
        );
        let cut = said(wire, Say::text("Once upon").and_is_cut_off()).await;
        assert_eq!(
            (cut.finish, texts(&cut)),
            (Finish::Length, vec!["Once upon"])
        );
        let nothing = said(wire, Say::nothing()).await;
        assert_eq!(
            (nothing.finish, nothing.parts),
            (Finish::Stop, vec![]),
            "{wire:?}"
        );
    }
}

#[tokio::test]
async fn malformed_arguments_are_a_call_that_says_so() {
    for wire in Wire::ALL {
        let text = "{\"city\": \"Os";
        let reply = said(wire, Say::nothing().and_call_with("get_weather", text)).await;
        match reply.calls[0].input.inline().unwrap() {
            CallInput::Malformed { text: found, error } => {
                assert_eq!(found, text);
                assert!(error.contains("EOF"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_beta_joins_those_of_the_configuration() {
    let server = ProviderServer::start().await;
    server.says(Say::text("hi"));
    let mut options = options(&server, Wire::Anthropic);
    let beta = steadfast_harness::secret::Secret::new("context-1m-2025-08-07");
    options.headers = vec![("anthropic-beta".into(), beta)];
    let provider = HttpProvider::new(options).unwrap();
    let mut request = crate::ask::request(vec![user("hello")]);
    request.model = "claude-fable-5-1".into();
    let (sender, _receiver) = tokio::sync::mpsc::channel(16);
    let cancelled = tokio_util::sync::CancellationToken::new();
    use steadfast_harness::provider::ModelProvider;
    provider.reply(request, sender, cancelled).await.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(
        asked.header("anthropic-beta"),
        Some("context-1m-2025-08-07,thinking-binding-controls-2026-08-01")
    );
    assert_eq!(
        asked.body["thinking"]["block_binding"]["prefix_mismatch_behavior"],
        "drop_block"
    );
}
