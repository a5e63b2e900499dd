//! Any history is a valid request on any wire, whoever gave its replies.

use proptest::prelude::*;
use serde_json::{Value, json};
use steadfast_core::content::{CallInput, ContentPart, FileSource, ReplyPart, ToolOutput};
use steadfast_harness::native::guard;
use steadfast_harness::openai_chat;
use steadfast_harness::request::{RequestCall, RequestItem, RequestResult};
use steadfast_harness::wire::{Dialect, Wire};

use crate::checks::{check_chat, check_messages, check_responses};
use crate::support::{dialect, request};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), "[a-z]{1,5}"]
}

fn content() -> impl Strategy<Value = Vec<ContentPart>> {
    let file = (
        prop_oneof![
            Just("image/png"),
            Just("application/pdf"),
            Just("text/plain"),
            Just("x/y")
        ],
        prop_oneof![
            Just(FileSource::Url {
                url: "https://example.org/f".into()
            }),
            Just(FileSource::Base64 {
                data: "aGk=".into()
            }),
        ],
    )
        .prop_map(|(media_type, source)| ContentPart::File {
            media_type: media_type.into(),
            name: None,
            source,
        });
    let part = prop_oneof![
        text().prop_map(|text| ContentPart::Text { text }),
        Just(ContentPart::Json {
            value: json!({"a": 1})
        }),
        file,
    ];
    proptest::collection::vec(part, 0..3)
}

fn output() -> impl Strategy<Value = ToolOutput> {
    prop_oneof![
        text().prop_map(|text| ToolOutput::Text { text }),
        text().prop_map(|text| ToolOutput::ErrorText { text }),
        Just(ToolOutput::Json { value: json!(null) }),
        content().prop_map(|parts| ToolOutput::Content { parts }),
        Just(ToolOutput::ExecutionDenied { reason: None }),
    ]
}

fn input() -> impl Strategy<Value = CallInput> {
    prop_oneof![
        Just(CallInput::Json(json!({"city": "x"}))),
        Just(CallInput::Json(json!([1]))),
        Just(CallInput::Malformed {
            text: "{".into(),
            error: "eof".into()
        }),
    ]
}

/// Native parts of all wires, also ones that the marked wire would never give.
fn native() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None),
        Just(Some(json!({"signature": "s"}))),
        Just(Some(json!({"field": "reasoning_content"}))),
        Just(Some(
            json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "e"})
        )),
        Just(Some(
            json!({"item": {"type": "message", "id": "m", "role": "assistant"},
            "part": {"type": "output_text"}})
        )),
        Just(Some(json!({"refusal": true}))),
    ]
}

fn part() -> impl Strategy<Value = ReplyPart> {
    prop_oneof![
        (text(), native()).prop_map(|(text, native)| ReplyPart::Text { text, native }),
        (text(), native()).prop_map(|(text, native)| ReplyPart::Reasoning { text, native }),
        Just(ReplyPart::ProviderTool {
            id: "srv".into(),
            name: "web_search".into(),
            input: json!({}),
            output: None,
            native: Some(json!({"use": {"type": "server_tool_use"}})),
        }),
    ]
}

#[derive(Debug, Clone)]
struct Step {
    wire: &'static str,
    parts: Vec<ReplyPart>,
    calls: Vec<(String, String, CallInput, ToolOutput)>,
    said: Option<Vec<ContentPart>>,
}

fn step() -> impl Strategy<Value = Step> {
    let wire = prop_oneof![
        Just("anthropic"),
        Just("openai-chat"),
        Just("openai-responses"),
        Just("scripted"),
        Just("anthropic:other"),
    ];
    let id = prop_oneof!["[a-z]{3}", "[a-zA-Z0-9]{9}", "[ü.:/ ]{2}", "[a-z]{90}"];
    let tool = prop_oneof![
        Just("get_weather".to_owned()),
        Just(String::new()),
        "[a-z. ]{1,70}"
    ];
    let calls = proptest::collection::vec((id, tool, input(), output()), 0..3);
    let parts = proptest::collection::vec(part(), 0..3);
    (wire, parts, calls, proptest::option::of(content())).prop_map(|(wire, parts, calls, said)| {
        Step {
            wire,
            parts,
            calls,
            said,
        }
    })
}

fn history(start: Vec<ContentPart>, steps: Vec<Step>) -> Vec<RequestItem> {
    let mut items = vec![RequestItem::User { parts: start }];
    for (number, step) in steps.into_iter().enumerate() {
        let mut parts = step.parts;
        let mut calls = Vec::new();
        let mut results = Vec::new();
        for (index, (id, tool, input, output)) in step.calls.into_iter().enumerate() {
            // Every second call has no place of its own among the parts.
            if index % 2 == 0 {
                let index = u16::try_from(index).unwrap();
                parts.push(ReplyPart::Call {
                    index,
                    native: None,
                });
            }
            let id = format!("{id}{number}{index}");
            calls.push(RequestCall {
                id: id.clone(),
                tool: tool.clone(),
                input,
            });
            results.push(RequestResult {
                id,
                tool,
                output,
                note: Some("n".into()),
            });
        }
        let has_results = !results.is_empty();
        items.push(RequestItem::Reply {
            wire: step.wire.into(),
            model: "m".into(),
            parts,
            calls,
        });
        if has_results {
            items.push(RequestItem::Results { results });
        }
        if step.said.is_some() || !has_results {
            let parts = step.said.unwrap_or_default();
            items.push(RequestItem::User { parts });
        }
    }
    items
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_history_is_valid_on_any_wire(
        start in content(),
        steps in proptest::collection::vec(step(), 0..6),
    ) {
        let request = request(history(start, steps));
        prop_assert_eq!(guard::prove(&request), Ok(()));
        check_messages(&dialect(Wire::Anthropic).encode(&request));
        check_chat(&dialect(Wire::OpenAiChat).encode(&request), false);
        check_responses(&dialect(Wire::OpenAiResponses).encode(&request));
        let mut strict = dialect(Wire::OpenAiChat);
        strict.chat = openai_chat::Dialect::of_host("api.mistral.ai");
        check_chat(&strict.encode(&request), true);
    }
}

#[test]
fn another_provider_on_the_same_wire_is_another_reader() {
    let mine = Dialect::new(Wire::OpenAiChat, "openai-chat", "api.openai.com");
    let other = Dialect::new(Wire::OpenAiChat, "deepseek", "api.deepseek.com");
    assert_eq!(
        (mine.label.as_str(), other.label.as_str()),
        ("openai-chat", "openai-chat:deepseek")
    );
    let items = |wire: &str| {
        vec![
            crate::support::user("a"),
            RequestItem::Reply {
                wire: wire.into(),
                model: "m".into(),
                parts: vec![
                    ReplyPart::Reasoning {
                        text: "hm".into(),
                        native: Some(json!({"field": "reasoning_content"})),
                    },
                    ReplyPart::Text {
                        text: "b".into(),
                        native: None,
                    },
                ],
                calls: vec![],
            },
            crate::support::user("c"),
        ]
    };
    let sent =
        |dialect: &Dialect, wire| dialect.encode(&request(items(wire)))["messages"][2].clone();
    let plain = json!({"role": "assistant", "content": "b"});
    let thoughtful = json!({"role": "assistant", "content": "b", "reasoning_content": "hm"});
    assert_eq!(sent(&other, "openai-chat:deepseek"), thoughtful);
    assert_eq!(sent(&mine, "openai-chat:deepseek"), plain);
}

#[test]
fn a_step_that_another_provider_began_goes_on_without_forced_thinking() {
    let step = |wire: &str| {
        vec![
            crate::support::user("a"),
            RequestItem::Reply {
                wire: wire.into(),
                model: "m".into(),
                parts: vec![ReplyPart::Reasoning {
                    text: "hm".into(),
                    native: Some(json!({"signature": "s"})),
                }],
                calls: vec![RequestCall {
                    id: "c1".into(),
                    tool: "get_weather".into(),
                    input: CallInput::Json(json!({})),
                }],
            },
            RequestItem::Results {
                results: vec![crate::support::result("c1", ToolOutput::text("x"))],
            },
        ]
    };
    let encode = |items| {
        let mut request = request(items);
        request.options = json!({"thinking": {"type": "enabled", "budget_tokens": 40000}});
        dialect(Wire::Anthropic).encode(&request)
    };
    let own = encode(step("anthropic"));
    assert_eq!(own["thinking"]["type"], "enabled");
    assert_eq!(own["max_tokens"], 48_192);
    assert_eq!(encode(step("openai-chat"))["thinking"], Value::Null);
    let mut later = step("openai-chat");
    later.push(crate::support::user("next"));
    assert_eq!(
        encode(later)["thinking"],
        Value::Null,
        "the step is still open"
    );
}
