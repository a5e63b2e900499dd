//! What goes wrong, over each wire.

use std::time::Duration;

use serde_json::json;
use steadfast_core::input::{FailureClass, ModelFailure};
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::secret::Secret;
use steadfast_harness::transport::{HttpOptions, HttpProvider, SetupError};
use steadfast_harness::wire;
use steadfast_tests::provider_events::{Say, Wire};
use steadfast_tests::provider_server::{Answer, ProviderServer};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ask::{KEY, ask, ask_hello, options, provider, request, user};

const AGAIN: FailureClass = FailureClass::Retryable {
    retry_after_ms: None,
};

async fn failure(wire: Wire, answer: Answer) -> ModelFailure {
    let server = ProviderServer::start().await;
    server.next(answer);
    let failure = ask_hello(&provider(&server, wire)).await.reply.unwrap_err();
    assert_eq!(server.asked().len(), 1, "exactly one request is made");
    failure
}

#[tokio::test]
async fn statuses_are_told_apart() {
    for wire in Wire::ALL {
        for (status, class, code) in [
            (400, FailureClass::Fatal, "bad_request"),
            (401, FailureClass::Fatal, "unauthorized"),
            (403, FailureClass::Fatal, "forbidden"),
            (404, FailureClass::Fatal, "not_found"),
            (307, FailureClass::Fatal, "redirected"),
            (408, AGAIN, "timeout"),
            (409, AGAIN, "conflict"),
            (429, AGAIN, "rate_limited"),
            (500, AGAIN, "server_error"),
            (503, AGAIN, "overloaded"),
            (529, AGAIN, "overloaded"),
        ] {
            let failure = failure(wire, Answer::status(status)).await;
            assert_eq!((failure.class, failure.code.as_str()), (class, code));
        }
    }
}

#[tokio::test]
async fn the_providers_wish_and_words_are_kept() {
    let headers = vec![("retry-after".to_owned(), "7".to_owned())];
    let body = json!({"type": "error", "error":
        {"type": "rate_limit_error", "message": "slow down"}});
    let answer = Answer::Status(429, headers, body.to_string());
    assert_eq!(
        failure(Wire::Anthropic, answer).await,
        ModelFailure {
            class: FailureClass::Retryable {
                retry_after_ms: Some(7_000)
            },
            code: "rate_limited".into(),
            message: "the provider answered 429 (rate_limit_error): slow down".into(),
        }
    );
}

#[tokio::test]
async fn a_full_window_is_told_apart_from_a_bad_request() {
    let body = json!({"error": {"code": "context_length_exceeded", "message": "too long"}});
    let failure = failure(
        Wire::OpenAiChat,
        Answer::Status(400, vec![], body.to_string()),
    )
    .await;
    assert_eq!(failure.class, FailureClass::ContextOverflow);
}

#[tokio::test]
async fn an_endless_error_page_is_cut() {
    let page = "<p>".repeat(1_000_000);
    let failure = failure(Wire::OpenAiChat, Answer::Status(502, vec![], page)).await;
    assert_eq!(failure.class, AGAIN);
    assert!(failure.message.len() <= 400);
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_no_reply() {
    let say = Say::text("Once upon a time");
    for wire in Wire::ALL {
        let events = say.events(wire, 0);
        let half = events[..events.len() / 2].to_owned();
        for (answer, code) in [
            (Answer::EventsThenCut(half.clone()), "broken_stream"),
            (Answer::Events(half.clone(), 16), "broken_stream"),
            (Answer::EventsThenSilence(half.clone()), "silent"),
            (Answer::Silence, "silent"),
            (Answer::Cut, "unreachable"),
            (Answer::Events(String::new(), 1), "broken_stream"),
        ] {
            let failure = failure(wire, answer).await;
            assert_eq!(
                (failure.class, failure.code.as_str()),
                (AGAIN, code),
                "{wire:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_told() {
    let text = Say::text("Once").events(Wire::Anthropic, 0);
    let (begun, _) = text.split_once("event: message_delta").unwrap();
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let events = format!("{begun}event: error\ndata: {error}\n\n");
    let failure = failure(Wire::Anthropic, Answer::Events(events, 16)).await;
    assert_eq!(
        (
            failure.class,
            failure.code.as_str(),
            failure.message.as_str()
        ),
        (
            AGAIN,
            "overloaded",
            "the provider broke the reply off (overloaded_error): Overloaded"
        )
    );
}

#[tokio::test]
async fn nobody_at_the_address_is_worth_another_try() {
    let server = ProviderServer::start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = options(&server, Wire::OpenAiChat);
    options.base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let provider = HttpProvider::new(options).unwrap();
    let failure = ask_hello(&provider).await.reply.unwrap_err();
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (AGAIN, "connection_refused")
    );
    assert!(!failure.message.contains("http://"), "{}", failure.message);
}

#[tokio::test]
async fn what_kept_a_provider_from_being_reached_is_told_apart() {
    let server = ProviderServer::start().await;
    let plain = options(&server, Wire::OpenAiChat).base_url;
    for (base_url, code) in [
        (plain.replace("http://", "https://"), "tls_failed"),
        ("http://nobody.invalid/v1".to_owned(), "name_not_found"),
    ] {
        let mut options = options(&server, Wire::OpenAiChat);
        options.base_url = base_url;
        // A resolver may take its time.
        options.silence_timeout = Duration::from_secs(30);
        let provider = HttpProvider::new(options).unwrap();
        let failure = ask_hello(&provider).await.reply.unwrap_err();
        assert_eq!((failure.class, failure.code.as_str()), (AGAIN, code));
    }
}

#[tokio::test]
async fn an_unknown_model_is_named_with_the_settings_that_say_it() {
    let body = json!({"error": {"type": "not_found_error", "message": "model: m"}});
    for wire in Wire::ALL {
        let failure = failure(wire, Answer::Status(404, vec![], body.to_string())).await;
        let name = wire.kind();
        let advice = format!(
            "; check `model` of the agent, which is `{name}/fake-model`, and `base_url` of provider `{name}`"
        );
        assert_eq!(failure.code, "not_found");
        assert_eq!(
            failure.message,
            format!("the provider answered 404 (not_found_error): model: m{advice}")
        );
    }
}

#[tokio::test]
async fn slow_is_not_silent() {
    let server = ProviderServer::start().await;
    let pause = Duration::from_millis(200);
    let bytes = Say::text("abcdef").events(Wire::OpenAiChat, 0).len() / 5;
    server.next(Answer::SaysSlowly(Say::text("abcdef"), bytes, pause));
    let answered = ask_hello(&provider(&server, Wire::OpenAiChat)).await;
    assert!(answered.reply.is_ok(), "{:?}", answered.reply);
}

#[tokio::test]
async fn a_reply_beyond_its_bound_is_refused() {
    let server = ProviderServer::start().await;
    server.says(Say::text("x".repeat(10_000)));
    let mut options = options(&server, Wire::Anthropic);
    options.response_bytes_max = 5_000;
    let provider = HttpProvider::new(options).unwrap();
    let failure = ask_hello(&provider).await.reply.unwrap_err();
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (FailureClass::Fatal, "reply_too_large")
    );
}

#[tokio::test]
async fn an_invalid_request_never_leaves() {
    let server = ProviderServer::start().await;
    let failure = ask(&provider(&server, Wire::Anthropic), vec![])
        .await
        .reply
        .unwrap_err();
    assert_eq!(
        (
            failure.class,
            failure.code.as_str(),
            failure.message.as_str()
        ),
        (
            FailureClass::Fatal,
            "invalid_request",
            "the history is empty"
        )
    );
    assert_eq!(server.asked(), []);
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once_and_its_connection_too() {
    let begun = Instant::now();
    for answer in [
        Answer::Silence,
        Answer::EventsThenSilence(": hello\n\n".into()),
    ] {
        let server = ProviderServer::start().await;
        server.next(answer);
        let mut options = options(&server, Wire::Anthropic);
        options.silence_timeout = Duration::from_secs(60);
        let provider = HttpProvider::new(options).unwrap();
        let cancelled = CancellationToken::new();
        let (sender, _receiver) = mpsc::channel(1);
        let asking = provider.reply(request(vec![user("hello")]), sender, cancelled.clone());
        let cancelling = async {
            server.wait_for(1).await;
            cancelled.cancel();
        };
        let (reply, ()) = tokio::join!(asking, cancelling);
        assert_eq!(reply.unwrap_err().code, "cancelled");
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn nobody_looking_on_does_not_matter() {
    let server = ProviderServer::start().await;
    server.says(Say::text("hi there"));
    let (sender, receiver) = mpsc::channel(1);
    drop(receiver);
    let provider = provider(&server, Wire::OpenAiResponses);
    let reply = provider
        .reply(
            request(vec![user("hello")]),
            sender,
            CancellationToken::new(),
        )
        .await;
    assert!(reply.is_ok(), "{reply:?}");
}

#[tokio::test]
async fn a_key_is_never_shown() {
    let server = ProviderServer::start().await;
    let body = json!({"error": {"message": format!("bad key {KEY} and {KEY}")}});
    server.next(Answer::Status(401, vec![], body.to_string()));
    let mut options = options(&server, Wire::OpenAiChat);
    options.headers = vec![("authorization".into(), Secret::new(format!("Bearer {KEY}")))];
    options.api_key = None;
    assert!(!format!("{options:?}").contains(KEY));
    let provider = HttpProvider::new(options).unwrap();
    assert!(!format!("{provider:?}").contains(KEY));
    let failure = ask_hello(&provider).await.reply.unwrap_err();
    assert_eq!(
        failure.message,
        "the provider answered 401: bad key [secret] and [secret]; check `api_key` of provider `openai-chat`"
    );
}

#[test]
fn bad_settings_are_refused_at_once() {
    for url in ["", "localhost", "ftp://localhost", "http://"] {
        let options = HttpOptions {
            base_url: url.into(),
            ..HttpOptions::new("p", wire::Wire::OpenAiChat)
        };
        let refused = HttpProvider::new(options);
        assert!(matches!(refused, Err(SetupError::BadUrl(_))), "{url:?}");
    }
    let options = HttpOptions {
        headers: vec![("bad name".into(), Secret::new("x"))],
        ..HttpOptions::new("p", wire::Wire::OpenAiChat)
    };
    assert!(matches!(
        HttpProvider::new(options),
        Err(SetupError::BadHeader(_))
    ));
}
