//! Whole requests, as each wire wants them.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{CallInput, ReplyPart};
use steadfast_core::content::{ContentPart, FileSource, ToolOutput};
use steadfast_harness::openai_chat;
use steadfast_harness::request::{
    ModelRequest, ProviderTool, RequestCall, RequestItem, RequestResult, ToolDeclaration,
};
use steadfast_harness::wire::{Dialect, Wire};

use crate::support::{dialect, request, result, user};

fn image() -> ContentPart {
    ContentPart::File {
        media_type: "image/png".into(),
        name: None,
        source: FileSource::Base64 {
            data: "aGk=".into(),
        },
    }
}

fn pdf(source: FileSource) -> ContentPart {
    ContentPart::File {
        media_type: "application/pdf".into(),
        name: Some("a.pdf".into()),
        source,
    }
}

/// A step with an image as result, then a message with files.
fn rich() -> ModelRequest {
    let attached = FileSource::Base64 {
        data: "aGk=".into(),
    };
    let linked = FileSource::Url {
        url: "https://example.org/b.pdf".into(),
    };
    let picture = ToolOutput::Content {
        parts: vec![ContentPart::Text { text: "it".into() }, image()],
    };
    let mut request = request(vec![
        user("look"),
        RequestItem::Reply {
            wire: "scripted".into(),
            model: "m".into(),
            parts: vec![
                ReplyPart::Reasoning {
                    text: "hm".into(),
                    native: None,
                },
                ReplyPart::Text {
                    text: "I look.".into(),
                    native: None,
                },
            ],
            calls: ["c1", "c2"]
                .map(|id| RequestCall {
                    id: id.into(),
                    tool: "get_weather".into(),
                    input: CallInput::Json(json!({"b": 1, "a": [null]})),
                })
                .into(),
        },
        RequestItem::Results {
            results: vec![
                result("c1", picture),
                RequestResult {
                    note: Some("late".into()),
                    ..result("c2", ToolOutput::error("no"))
                },
            ],
        },
        RequestItem::User {
            parts: vec![
                ContentPart::Text {
                    text: "and this".into(),
                },
                pdf(attached),
                pdf(linked),
            ],
        },
    ]);
    request.output_tokens_max = Some(500);
    request
}

#[test]
fn messages() {
    let cached = json!({"type": "ephemeral"});
    assert_eq!(
        dialect(Wire::Anthropic).encode(&rich()),
        json!({
            "model": "some-model", "stream": true, "max_tokens": 500,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": cached}],
            "tools": [{"name": "get_weather", "description": "Weather", "cache_control": cached,
                "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}],
            "messages": [
                {"role": "user", "content":
                    [{"type": "text", "text": "look", "cache_control": cached}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"a": [null], "b": 1}},
                    {"type": "tool_use", "id": "c2", "name": "get_weather", "input": {"a": [null], "b": 1}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [
                        {"type": "text", "text": "it"},
                        {"type": "image", "source":
                            {"type": "base64", "media_type": "image/png", "data": "aGk="}}]},
                    {"type": "tool_result", "tool_use_id": "c2", "is_error": true, "content": [
                        {"type": "text", "text": "no"}, {"type": "text", "text": "[Note: late]"}]},
                    {"type": "text", "text": "and this"},
                    {"type": "document", "title": "a.pdf", "source":
                        {"type": "base64", "media_type": "application/pdf", "data": "aGk="}},
                    {"type": "document", "title": "a.pdf", "cache_control": cached, "source":
                        {"type": "url", "url": "https://example.org/b.pdf"}},
                ]},
            ],
        })
    );
}

#[test]
fn chat() {
    let arguments = r#"{"a":[null],"b":1}"#;
    let call = |id: &str| {
        json!({"id": id, "type": "function",
            "function": {"name": "get_weather", "arguments": arguments}})
    };
    assert_eq!(
        dialect(Wire::OpenAiChat).encode(&rich()),
        json!({
            "model": "some-model", "stream": true, "max_tokens": 500,
            "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {"name": "get_weather", "description": "Weather",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "look"},
                {"role": "assistant", "content": "I look.", "tool_calls": [call("c1"), call("c2")]},
                {"role": "tool", "tool_call_id": "c1",
                    "content": "it\n[A file of this result follows.]"},
                {"role": "tool", "tool_call_id": "c2", "content": "Error: no\n[Note: late]"},
                {"role": "user", "content": [
                    {"type": "text", "text": "A file of a result of get_weather:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                    {"type": "text", "text": "and this"},
                    {"type": "file", "file": {"filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,aGk="}},
                    {"type": "text", "text":
                        "[file a.pdf, application/pdf, at https://example.org/b.pdf]"},
                ]},
            ],
        })
    );
}

#[test]
fn responses() {
    let call = |id: &str| {
        json!({"type": "function_call", "call_id": id, "name": "get_weather",
            "arguments": r#"{"a":[null],"b":1}"#})
    };
    let mut body = dialect(Wire::OpenAiResponses).encode(&rich());
    let key = body["prompt_cache_key"].take();
    assert_eq!(key.as_str().unwrap().len(), 32);
    assert_eq!(
        body,
        json!({
            "model": "some-model", "stream": true, "store": false, "max_output_tokens": 500,
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": null,
            "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "get_weather", "description": "Weather",
                "strict": false,
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}],
            "input": [
                {"type": "message", "role": "user", "content":
                    [{"type": "input_text", "text": "look"}]},
                {"type": "message", "role": "assistant", "content": "I look."},
                call("c1"),
                call("c2"),
                {"type": "function_call_output", "call_id": "c1", "output": [
                    {"type": "input_text", "text": "it"},
                    {"type": "input_image", "image_url": "data:image/png;base64,aGk="}]},
                {"type": "function_call_output", "call_id": "c2",
                    "output": "Error:\nno\n[Note: late]"},
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "and this"},
                    {"type": "input_file", "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,aGk="},
                    {"type": "input_file", "file_url": "https://example.org/b.pdf"}]},
            ],
        })
    );
}

#[test]
fn a_growing_history_keeps_its_encoded_beginning() {
    let long = rich();
    for wire in Wire::ALL {
        let (list, marks) = match wire {
            Wire::OpenAiResponses => ("input", false),
            Wire::Anthropic => ("messages", true),
            Wire::OpenAiChat => ("messages", false),
        };
        let encode = |items: &[RequestItem]| {
            let body = dialect(wire).encode(&ModelRequest {
                items: items.to_vec().into(),
                ..long.clone()
            });
            let mut list = body[list].as_array().unwrap().clone();
            if marks {
                for block in list
                    .iter_mut()
                    .flat_map(|message| message["content"].as_array_mut().unwrap())
                {
                    block.as_object_mut().unwrap().remove("cache_control");
                }
            }
            list
        };
        let items: Vec<RequestItem> = long.items.iter().cloned().collect();
        let before = encode(&items[..1]);
        let after = encode(&items);
        assert_eq!(before, after[..before.len()], "{wire:?}");
    }
}

fn with_options(wire: Wire, options: Value) -> Value {
    let mut request = request(vec![user("a")]);
    request.options = options;
    dialect(wire).encode(&request)
}

#[test]
fn options_reach_the_body_and_leave_what_is_the_wires_own() {
    let options = json!({"model": "x", "messages": [], "input": [], "stream": false,
        "temperature": 0.5, "tools": [{"type": "web_search"}]});
    for wire in Wire::ALL {
        let body = with_options(wire, options.clone());
        assert_eq!(
            (&body["model"], &body["stream"]),
            (&json!("some-model"), &json!(true))
        );
        assert_eq!(body["temperature"], 0.5);
        assert_eq!(body["tools"].as_array().unwrap().len(), 2, "{wire:?}");
        let history = if wire == Wire::OpenAiResponses {
            "input"
        } else {
            "messages"
        };
        assert!(!body[history].as_array().unwrap().is_empty());
    }
}

#[test]
fn breakpoints_of_the_options_count_among_the_four() {
    let cached = json!({"type": "ephemeral"});
    let tool = |name: &str| json!({"type": "t", "name": name, "cache_control": cached});
    let body = with_options(
        Wire::Anthropic,
        json!({"tools": [tool("x"), tool("y"), tool("z")]}),
    );
    assert_eq!(body.to_string().matches("ephemeral").count(), 4);
    assert_eq!(body["messages"][0]["content"][0]["cache_control"], cached);
    let automatic = with_options(Wire::Anthropic, json!({"cache_control": cached}));
    assert_eq!(
        automatic["messages"][0]["content"][0]["cache_control"],
        Value::Null
    );
    assert_eq!(automatic["system"][0]["cache_control"], cached);
}

#[test]
fn a_providers_own_tool_is_only_offered_to_that_provider() {
    let declared = |id: &str| ToolDeclaration {
        name: "search".into(),
        description: String::new(),
        input_schema: Value::Null,
        provider: Some(ProviderTool {
            id: id.into(),
            options: json!({"max_uses": 2}),
        }),
    };
    let mut request = request(vec![user("a")]);
    request.tools = Arc::new(vec![
        declared("anthropic.web_search_20250305"),
        declared("openai.web_search"),
    ]);
    let tools = |wire| dialect(wire).encode(&request)["tools"].clone();
    assert_eq!(
        tools(Wire::Anthropic),
        json!([{"type": "web_search_20250305", "name": "search", "max_uses": 2,
            "cache_control": {"type": "ephemeral"}}])
    );
    assert_eq!(
        tools(Wire::OpenAiResponses),
        json!([{"type": "web_search", "max_uses": 2}])
    );
    assert_eq!(tools(Wire::OpenAiChat), Value::Null);
}

#[test]
fn each_compatible_server_is_spoken_to_in_its_dialect() {
    let mut asked = rich();
    asked.items = asked.items.iter().take(3).cloned().collect();
    asked.items.push(user("so?"));
    let encode = |host: &str| {
        let mut dialect: Dialect = dialect(Wire::OpenAiChat);
        dialect.chat = openai_chat::Dialect::of_host(host);
        dialect.encode(&asked)
    };
    let openai = encode("api.openai.com");
    assert_eq!(openai["max_completion_tokens"], 500);
    assert!(openai["prompt_cache_key"].is_string());
    let mistral = encode("api.mistral.ai");
    assert_eq!(mistral["stream_options"], Value::Null);
    let id = mistral["messages"][2]["tool_calls"][0]["id"]
        .as_str()
        .unwrap();
    assert_eq!(id.len(), 9);
    assert_eq!(mistral["messages"][3]["tool_call_id"], id);
    assert_eq!(mistral["messages"][5]["content"], "Understood.");
    let deepseek = encode("api.deepseek.com");
    assert_eq!(deepseek["messages"][2]["reasoning_content"], "");
    let gemini = encode("generativelanguage.googleapis.com");
    let signed = |index: usize| {
        let call = &gemini["messages"][2]["tool_calls"][index];
        call["extra_content"]["google"]["thought_signature"].is_string()
    };
    assert_eq!((signed(0), signed(1)), (true, false));
}

#[test]
fn each_wire_is_told_in_its_words_whether_to_call_a_tool() {
    let choices = [
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
        ToolChoice::Tool("get_weather".into()),
    ];
    let named = "get_weather";
    let expected = |wire| match wire {
        Wire::Anthropic => [
            Value::Null,
            json!({"type": "none"}),
            json!({"type": "any"}),
            json!({"type": "tool", "name": named}),
        ],
        Wire::OpenAiChat => [
            Value::Null,
            json!("none"),
            json!("required"),
            json!({"type": "function", "function": {"name": named}}),
        ],
        Wire::OpenAiResponses => [
            Value::Null,
            json!("none"),
            json!("required"),
            json!({"type": "function", "name": named}),
        ],
    };
    for wire in Wire::ALL {
        let told = choices.clone().map(|tool_choice| {
            let request = ModelRequest {
                tool_choice,
                ..request(vec![user("a")])
            };
            dialect(wire).encode(&request)["tool_choice"].clone()
        });
        assert_eq!(told, expected(wire), "{wire:?}");
        // Nothing can be chosen of nothing, and a wire refuses it.
        let without = ModelRequest {
            tools: Arc::default(),
            tool_choice: ToolChoice::Required,
            ..request(vec![user("a")])
        };
        assert_eq!(dialect(wire).encode(&without).get("tool_choice"), None);
    }
}

#[test]
fn a_schema_of_the_answer_goes_where_a_wire_can_keep_to_it() {
    let with = |schema: Value| ModelRequest {
        output_schema: Some(Arc::new(schema)),
        ..request(vec![user("a")])
    };
    let object = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let responses = |schema: Value| {
        dialect(Wire::OpenAiResponses).encode(&with(schema))["text"]["format"].clone()
    };
    assert_eq!(
        responses(object.clone()),
        json!({"type": "json_schema", "name": "answer", "schema": object, "strict": false})
    );
    for unfit in [
        json!({"type": "array"}),
        json!({"type": "object", "anyOf": [{}]}),
    ] {
        assert_eq!(responses(unfit), Value::Null);
    }
    let at_host = |host: &str| {
        let dialect = openai_chat::Dialect::of_host(host);
        openai_chat::encode(&with(object.clone()), "openai", &dialect)["response_format"].clone()
    };
    assert_eq!(
        at_host("api.openai.com"),
        json!({"type": "json_schema", "json_schema":
            {"name": "answer", "schema": object, "strict": false}})
    );
    assert_eq!(at_host("localhost"), Value::Null);
}
