//! What the scripted model says.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{CallInput, Finish, ReplyPart, Stored, ToolOutput};
use steadfast_core::id::{SessionId, SessionKey, TenantId};
use steadfast_core::input::FailureClass;

use super::*;
use crate::request::{RequestCall, RequestItem, RequestResult, ToolDeclaration};

fn request(items: Vec<RequestItem>) -> ModelRequest {
    ModelRequest {
        session: SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new("s").unwrap(),
        },
        model: "demo".into(),
        instructions: String::new(),
        tools: Arc::new(vec![ToolDeclaration {
            name: "get_weather".into(),
            description: "Weather of a city".into(),
            input_schema: json!({"type": "object", "required": ["city", "days"],
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}),
            provider: None,
        }]),
        items: items.into(),
        output_tokens_max: None,
        options: Value::Null,
        purpose: Purpose::Turn,
        tool_choice: ToolChoice::Auto,
        output_schema: None,
        attempt: 1,
    }
}

fn user(text: &str) -> RequestItem {
    RequestItem::User {
        parts: vec![ContentPart::Text { text: text.into() }],
    }
}

fn reply(calls: &[&str]) -> RequestItem {
    RequestItem::Reply {
        wire: WIRE.into(),
        model: "demo".into(),
        parts: vec![],
        calls: calls
            .iter()
            .map(|id| RequestCall {
                id: (*id).into(),
                tool: "get_weather".into(),
                input: CallInput::Json(json!({})),
            })
            .collect(),
    }
}

fn results(ids: &[&str]) -> RequestItem {
    RequestItem::Results {
        results: ids
            .iter()
            .map(|id| RequestResult {
                id: (*id).into(),
                tool: "get_weather".into(),
                output: ToolOutput::text("sunny"),
                note: None,
            })
            .collect(),
    }
}

async fn ask(request: ModelRequest) -> (Result<ModelReply, ModelFailure>, Vec<Delta>) {
    let (sender, mut receiver) = mpsc::channel(1024);
    let reply = ScriptedProvider::new()
        .reply(request, sender, CancellationToken::new())
        .await;
    let mut deltas = Vec::new();
    while let Some(delta) = receiver.recv().await {
        deltas.push(delta);
    }
    (reply, deltas)
}

fn text(reply: &ModelReply) -> &str {
    match reply.parts.first() {
        Some(Stored::Inline(ReplyPart::Text { text, .. })) => text,
        other => panic!("no text but {other:?}"),
    }
}

#[tokio::test]
async fn each_reply_is_the_next_step_of_the_newest_script() {
    let script = r#"Please SCRIPT: [{"tools": [{"tool": "get_weather", "input": {"city": "Oslo"}},
        {"tool": "get_weather"}]}, {"text": "done", "usage": {"input_tokens": 7}}] thanks"#;
    let mut items = vec![
        user("SCRIPT: [{\"text\": \"old\"}]"),
        reply(&[]),
        user(script),
    ];
    let (first, deltas) = ask(request(items.clone())).await;
    let first = first.unwrap();
    assert_eq!(first.finish, Finish::ToolCalls);
    let inputs: Vec<_> = first
        .calls
        .iter()
        .map(|call| call.input.inline().unwrap())
        .collect();
    assert_eq!(
        inputs,
        [
            &CallInput::Json(json!({"city": "Oslo"})),
            &CallInput::Json(json!({}))
        ]
    );
    assert_eq!(deltas.len(), 2);

    items.extend([reply(&["a", "b"]), results(&["a", "b"]), user("go on")]);
    let second = ask(request(items.clone())).await.0.unwrap();
    assert_eq!((text(&second), second.usage.input_tokens), ("done", 7));

    items.extend([reply(&[]), user("more")]);
    let over = ask(request(items)).await.0.unwrap();
    assert_eq!(text(&over), "The script is over. I saw 2 tool results.");
}

#[tokio::test]
async fn text_comes_in_as_many_chunks_as_the_step_says() {
    let script = r#"SCRIPT:[{"reasoning": "hm", "text": "äbcdefgh", "chunks": 3, "delay": 0.0}]"#;
    let (reply, deltas) = ask(request(vec![user(script)])).await;
    assert_eq!(reply.unwrap().parts.len(), 2);
    let told = |part: u32, text: &str| Delta::Text {
        part,
        text: text.into(),
    };
    let thought = |text: &str| Delta::Reasoning {
        part: 0,
        text: text.into(),
    };
    assert_eq!(
        deltas,
        [
            thought("h"),
            thought("m"),
            told(1, "äbc"),
            told(1, "def"),
            told(1, "gh")
        ]
    );
}

#[tokio::test]
async fn a_status_fails_each_attempt_or_as_many_as_the_step_says() {
    let always = r#"SCRIPT:[{"status": 529}]"#;
    let twice = r#"SCRIPT:[{"status": 429, "times": 2, "text": "there"}]"#;
    for attempt in 1..4 {
        let asked = ModelRequest {
            attempt,
            ..request(vec![user(always)])
        };
        let failure = ask(asked).await.0.unwrap_err();
        let again = FailureClass::Retryable {
            retry_after_ms: None,
        };
        assert_eq!(
            (failure.class, failure.code.as_str()),
            (again, "overloaded")
        );
        let asked = ModelRequest {
            attempt,
            ..request(vec![user(twice)])
        };
        assert_eq!(ask(asked).await.0.is_ok(), attempt == 3);
    }
}

#[tokio::test]
async fn a_bad_script_is_a_clear_and_final_failure() {
    for script in [
        "SCRIPT: [{\"text\": ",
        "SCRIPT: hello",
        "SCRIPT:",
        "SCRIPT: [{\"txt\": \"a\"}]",
        "SCRIPT: [{\"delay\": -1}]",
        "SCRIPT: [{\"times\": 1}]",
        "SCRIPT: [{\"input\": {}}]",
        "SCRIPT: [{\"status\": 200}]",
        "SCRIPT: [{\"hang\": \"x\"}]",
    ] {
        let failure = ask(request(vec![user(script)])).await.0.unwrap_err();
        assert_eq!(
            (failure.class, failure.code.as_str()),
            (FailureClass::Fatal, "bad_script"),
            "{script}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_step_waits_and_ends_at_once_when_cancelled() {
    let hang = || request(vec![user(r#"SCRIPT:[{"hang": 30}]"#)]);
    let begun = tokio::time::Instant::now();
    let reply = ask(hang()).await.0.unwrap();
    assert_eq!(text(&reply), "I am back.");
    assert_eq!(begun.elapsed(), Duration::from_secs(30));

    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let (sender, _receiver) = mpsc::channel(1);
    let failure = ScriptedProvider::new()
        .reply(hang(), sender, cancelled)
        .await
        .unwrap_err();
    assert_eq!(failure.code, "cancelled");
}

#[tokio::test(start_paused = true)]
async fn without_a_script_it_calls_the_tool_that_is_named() {
    let hello = ask(request(vec![user("Hello")])).await.0.unwrap();
    assert!(text(&hello).contains("- get_weather: Weather of a city"));

    let named = user("Please get weather for Paris, 3 days");
    let calling = ask(request(vec![named.clone()])).await.0.unwrap();
    let call = calling.calls.first().unwrap();
    assert_eq!(
        call.input.inline(),
        Some(&CallInput::Json(json!({"city": "Paris", "days": 3})))
    );

    let items = vec![named, reply(&["a"]), results(&["a"])];
    let answer = ask(request(items)).await.0.unwrap();
    assert_eq!(text(&answer), "get_weather answered: sunny");
}

#[tokio::test(start_paused = true)]
async fn digits_within_a_word_are_no_number() {
    let schema = json!({
        "type": "object",
        "properties": {"order": {"type": "string"}, "cents": {"type": "integer", "minimum": 1}},
        "required": ["order", "cents"],
    });
    for (said, order, cents) in [
        ("refund order A17, 500 cents", "A17", 500),
        ("refund order \"A-17\" please, $5", "A-17", 5),
        ("refund order \"A-17\"", "A-17", 1),
    ] {
        let mut request = request(vec![user(said)]);
        request.tools = Arc::new(vec![ToolDeclaration {
            name: "refund".into(),
            description: "Refunds".into(),
            input_schema: schema.clone(),
            provider: None,
        }]);
        let reply = ask(request).await.0.unwrap();
        let input = CallInput::Json(json!({"order": order, "cents": cents}));
        assert_eq!(reply.calls[0].input.inline(), Some(&input), "{said}");
    }
}
