mod answers;
mod checks;
mod server;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use steadfast_core::content::{CallOutput, ContentPart, FileSource, Stored, ToolOutput};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::testing::{KEY, io, job, job_within};
use server::{Reply, Server};

fn tool(url: &str) -> HttpTool {
    HttpTool::new(HttpOptions::new(url)).unwrap()
}

async fn run(url: &str) -> CallOutcome {
    tool(url).run(job(json!({ "id": 7 })), io()).await
}

/// What a server that answers so makes of a call.
async fn outcome(head: &str, body: &[u8]) -> CallOutcome {
    run(&Server::answering(head, body).await.url).await
}

fn done(output: impl Into<ToolOutput>) -> CallOutcome {
    CallOutcome::Done(output.into().into())
}

fn noted(output: impl Into<ToolOutput>, note: &str) -> CallOutcome {
    CallOutcome::Done(CallOutput {
        output: Stored::Inline(output.into()),
        model_view: None,
        note: Some(note.to_owned()),
    })
}

fn unknown(detail: &str) -> CallOutcome {
    CallOutcome::Unknown {
        detail: detail.to_owned(),
    }
}

fn retry(detail: &str, retry_after_ms: Option<u64>) -> CallOutcome {
    CallOutcome::Retry {
        detail: detail.to_owned(),
        retry_after_ms,
    }
}

#[tokio::test]
async fn a_request_carries_the_input_and_names_its_call() {
    let server = Server::answering("200 OK", b"").await;
    let mut options = HttpOptions::new(&server.url);
    options.headers = BTreeMap::from([("Authorization".to_owned(), "Bearer secret".to_owned())]);
    let mut job = job(json!({ "id": 7 }));
    job.approval_reason = Some("a \"good\" k\u{e4}ufer\n\u{1f44d}".to_owned());
    HttpTool::new(options).unwrap().run(job, io()).await;
    let requests = server.requests();
    let [request] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    assert_eq!(request.line, "POST /refund HTTP/1.1");
    assert_eq!(request.body, r#"{"id":7}"#);
    let expected = [
        ("content-type", "application/json"),
        ("idempotency-key", KEY),
        ("steadfast-session", "s1"),
        ("steadfast-turn", "12"),
        ("steadfast-attempt", "2"),
        ("steadfast-epoch", "4"),
        ("steadfast-fence", "00000000000000000004-0000000002"),
        (
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
        ("authorization", "Bearer secret"),
        (
            "steadfast-approval-reason",
            r#""a \"good\" k\u00e4ufer\n\ud83d\udc4d""#,
        ),
    ];
    for (name, value) in expected {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Server::answering("200 OK", b"wrong door").await;
    for status in [
        "301 Moved Permanently",
        "303 See Other",
        "307 Temporary Redirect",
    ] {
        let head = format!("{status}\r\nlocation: {}", target.url);
        let expected = unknown(&format!("the tool answered {status}"));
        assert_eq!(outcome(&head, b"").await, expected);
    }
    assert_eq!(target.requests().len(), 0);
}

#[tokio::test]
async fn a_host_that_was_not_reached_did_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/?token=secret", listener.local_addr().unwrap());
    drop(listener);
    for url in [url.as_str(), "http://no-such-host.invalid/?token=secret"] {
        match run(url).await {
            CallOutcome::Retry { detail, .. } => {
                assert!(
                    detail.starts_with("the request could not be sent: "),
                    "{detail}"
                );
                assert!(!detail.contains("secret"), "{detail}");
            }
            other => panic!("{url} gave {other:?}"),
        }
    }
    // Speaks no TLS: the handshake fails before anything of the request was sent.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (outcome, ()) = tokio::join!(run(&url), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
    });
    assert!(matches!(outcome, CallOutcome::Retry { .. }), "{outcome:?}");
}

#[tokio::test]
async fn an_answer_that_is_not_complete_is_unknown() {
    let cases: [(&str, &str); 5] = [
        ("", "the answer was lost: "),
        ("HTTP/1.1 200", "the answer was lost: "),
        ("no http\r\n\r\n", "the answer was lost: "),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
            "the answer was lost: ",
        ),
        (
            "HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe",
            "the answer was lost: ",
        ),
    ];
    for (bytes, words) in cases {
        let server = Server::start(Reply::Bytes(bytes.as_bytes().to_vec())).await;
        match run(&server.url).await {
            CallOutcome::Unknown { detail } => assert!(detail.starts_with(words), "{detail}"),
            other => panic!("{bytes:?} gave {other:?}"),
        }
        assert_eq!(server.requests().len(), 1, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_slow_answer_is_unknown_at_the_tools_own_time_and_at_the_deadline() {
    for sent in ["", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let server = Server::start(Reply::Hang(sent.as_bytes().to_vec())).await;
        let mut options = HttpOptions::new(&server.url);
        options.timeout_ms = Some(200);
        let own = HttpTool::new(options)
            .unwrap()
            .run(job(json!({})), io())
            .await;
        let left = tool(&server.url)
            .run(job_within(json!({}), 200), io())
            .await;
        for outcome in [own, left] {
            match outcome {
                CallOutcome::Unknown { detail } => {
                    assert!(detail.starts_with("no complete answer in time"), "{detail}");
                }
                other => panic!("gave {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_cancelled_request_is_unknown_and_one_not_sent_did_nothing() {
    let server = Server::start(Reply::Hang(Vec::new())).await;
    let io = io();
    let cancelled = io.cancelled.clone();
    let tool_there = tool(&server.url);
    let (outcome, ()) = tokio::join!(tool_there.run(job(json!({})), io), async {
        server.asked().await;
        cancelled.cancel();
    });
    assert_eq!(outcome, unknown("cancelled while waiting for the answer"));

    let server = Server::answering("200 OK", b"").await;
    let called_off = crate::testing::io();
    called_off.cancelled.cancel();
    let outcomes = [
        tool(&server.url).run(job(json!({})), called_off).await,
        tool(&server.url)
            .run(job_within(json!({}), 0), crate::testing::io())
            .await,
    ];
    for outcome in outcomes {
        assert_eq!(
            outcome,
            retry("it was called off before the request was sent", None)
        );
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn an_answer_beyond_its_bound_is_kept_in_part_if_it_ends() {
    let server = Server::answering("200 OK\r\ncontent-type: application/json", &[b'7'; 300]).await;
    let mut options = HttpOptions::new(&server.url);
    options.response_bytes_max = 100;
    let note = "the answer has 300 bytes, of which only the first 100 were kept";
    assert_eq!(
        HttpTool::new(options)
            .unwrap()
            .run(job(json!({})), io())
            .await,
        noted("7".repeat(100), note)
    );

    let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let server = Server::start(Reply::Flood(head)).await;
    let mut options = HttpOptions::new(&server.url);
    options.response_bytes_max = 100;
    assert_eq!(
        HttpTool::new(options)
            .unwrap()
            .run(job(json!({})), io())
            .await,
        unknown("the answer is far larger than its bound")
    );
}

#[test]
fn options_that_cannot_work_are_refused_and_secrets_stay_out_of_sight() {
    let with = |change: &dyn Fn(&mut HttpOptions)| {
        let mut options = HttpOptions::new("https://user:pass@127.0.0.1:9/x?key=secret");
        change(&mut options);
        HttpTool::new(options)
    };
    let header = |name: &str, value: &str| {
        let header = (name.to_owned(), value.to_owned());
        with(&|options| options.headers = BTreeMap::from([header.clone()])).err()
    };
    let refused = |name: &str, reason| {
        Some(HttpToolError::Header {
            name: name.to_owned(),
            reason,
        })
    };
    assert_eq!(
        header("Idempotency-Key", "x"),
        refused("Idempotency-Key", "it is set for each call")
    );
    assert_eq!(
        header("steadfast-turn", "x"),
        refused("steadfast-turn", "it is set for each call")
    );
    assert_eq!(header("a b", "x"), refused("a b", "not a header name"));
    assert_eq!(
        header("a", "x\ny"),
        refused("a", "its value has odd characters")
    );
    for url in ["", "/refund", "ftp://127.0.0.1/x", "data:text/plain,x"] {
        let error = with(&|options| options.url = url.to_owned()).err();
        assert!(
            matches!(error, Some(HttpToolError::Url { .. })),
            "{url}: {error:?}"
        );
    }
    let zero = |option| Some(HttpToolError::Zero { option });
    assert_eq!(
        with(&|options| options.timeout_ms = Some(0)).err(),
        zero("timeout")
    );
    assert_eq!(
        with(&|options| options.response_bytes_max = 0).err(),
        zero("response_bytes_max")
    );

    let tool = with(&|options| {
        options.headers = BTreeMap::from([("authorization".to_owned(), "secret".to_owned())]);
    });
    let shown = format!("{:?}", tool.unwrap().options);
    assert_eq!(
        shown,
        "HttpOptions { url: \"https://127.0.0.1:9/x\", headers: [\"authorization\"], \
         timeout_ms: None, response_bytes_max: 16777216 }"
    );
}
