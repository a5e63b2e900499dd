use super::*;

#[tokio::test]
async fn a_success_is_a_result_by_its_content_type() {
    let json_type = "200 OK\r\ncontent-type: application/json; charset=utf-8";
    let envelope = "200 OK\r\nContent-Type: application/vnd.steadfast.result+json";
    let png = ContentPart::File {
        media_type: "image/png".to_owned(),
        name: None,
        source: FileSource::Base64 {
            data: "/wA=".to_owned(),
        },
    };
    let cases: [(&str, &[u8], CallOutcome); 13] = [
        ("200 OK", b"fine", done("fine")),
        ("200 OK", b"", done("")),
        ("204 No Content", b"", done("")),
        (
            "202 Accepted\r\ncontent-type: text/plain",
            br#"{"a":1}"#,
            done(r#"{"a":1}"#),
        ),
        (json_type, br#"{"a":1}"#, done(json!({ "a": 1 }))),
        (json_type, br#""text""#, done(json!("text"))),
        (json_type, b"", done("")),
        (
            "200 OK\r\ncontent-type: application/geo+json",
            b"[1]",
            done(json!([1])),
        ),
        (
            "200 OK\r\ncontent-type: image/png",
            &[0xff, 0],
            done(vec![png]),
        ),
        (
            json_type,
            b"{",
            noted(
                "{",
                "the result is not the application/json it says: \
                 EOF while parsing an object at line 1 column 1",
            ),
        ),
        (
            envelope,
            br#"{"output":"no","is_error":true}"#,
            done(ToolOutput::error("no")),
        ),
        (
            envelope,
            br#"{"output":1,"documents":[{"kind":"cart"}]}"#,
            noted(
                json!(1),
                "the tool's document edits were dropped: this agent has no documents",
            ),
        ),
        (
            envelope,
            b"[]",
            noted(
                "[]",
                "the result is not the application/vnd.steadfast.result+json it says: \
                 not an object",
            ),
        ),
    ];
    for (head, body, expected) in cases {
        assert_eq!(outcome(head, body).await, expected, "{head}");
    }
}

fn error(text: &str) -> CallOutcome {
    done(ToolOutput::error(text))
}

#[tokio::test]
async fn a_refusal_is_an_error_in_the_tools_words() {
    let json_type = "422 Unprocessable Content\r\ncontent-type: application/json";
    let code = ToolOutput::ErrorJson {
        value: json!({ "code": 1 }),
    };
    let cases: [(&str, &[u8], CallOutcome); 10] = [
        ("400 Bad Request", b"no such order", error("no such order")),
        (json_type, br#"{"code":1}"#, done(code)),
        (json_type, b"{", error("{")),
        (
            "404 Not Found",
            b"",
            error("the tool answered 404 Not Found"),
        ),
        ("408 Request Timeout", b"too late", error("too late")),
        ("409 Conflict", b"twice", error("twice")),
        ("429 Too Many Requests", b"slow down", error("slow down")),
        ("500 Internal Server Error", b"it broke", error("it broke")),
        ("501 Not Implemented", b"not yet", error("not yet")),
        (
            "501 Not Implemented",
            b"",
            error("the tool answered 501 Not Implemented"),
        ),
    ];
    for (head, body, expected) in cases {
        assert_eq!(outcome(head, body).await, expected, "{head}");
    }
}

#[tokio::test]
async fn a_tool_that_asks_to_come_later_did_nothing_and_a_proxy_may_not_know() {
    let conflict = "409 Conflict\r\nretry-after: 3";
    let busy = "503 Service Unavailable\r\nretry-after: 3";
    let many = "429 Too Many Requests";
    let many_later = "429 Too Many Requests\r\nretry-after: 3";
    let answered = "the tool answered 429 Too Many Requests";
    let running = "the tool answered 409 Conflict: still running";
    let cases: [(&str, &[u8], CallOutcome); 7] = [
        (conflict, b"still running", retry(running, Some(3_000))),
        (many, b"", retry(answered, None)),
        (many_later, b"", retry(answered, Some(3_000))),
        (
            busy,
            b"busy",
            unknown("the tool answered 503 Service Unavailable: busy"),
        ),
        (
            "408 Request Timeout",
            b"",
            unknown("the tool answered 408 Request Timeout"),
        ),
        (
            "500 Oops",
            b"",
            unknown("the tool answered 500 Internal Server Error"),
        ),
        ("599 Odd", b"odd", unknown("the tool answered 599: odd")),
    ];
    for (head, body, expected) in cases {
        assert_eq!(outcome(head, body).await, expected, "{head}");
    }
}

/// What each status without more headers says about its call: with a body, without.
#[tokio::test]
async fn every_status_has_one_meaning() {
    for status in 200..600 {
        let meaning = |outcome| match outcome {
            CallOutcome::Done(output) => match output.output {
                Stored::Inline(output) if output.is_error() => "error",
                _ => "result",
            },
            CallOutcome::Retry { .. } => "retry",
            CallOutcome::Asks(_) => "asks",
            CallOutcome::Unknown { .. } => "unknown",
        };
        let answer = |body: &[u8]| {
            let mut received = Received::new(100);
            received.push(body).unwrap();
            Answer {
                status: reqwest::StatusCode::from_u16(status).unwrap(),
                content_type: String::new(),
                retry_after_ms: None,
                body: received,
            }
        };
        let meanings = (
            meaning(answer(b"said").outcome()),
            meaning(answer(b"").outcome()),
        );
        let expected = match status {
            200..300 => ("result", "result"),
            408 => ("error", "unknown"),
            429 => ("error", "retry"),
            400..500 | 501 => ("error", "error"),
            500 => ("error", "unknown"),
            _ => ("unknown", "unknown"),
        };
        assert_eq!(meanings, expected, "{status}");
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let after = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_str(value).unwrap());
        answer::retry_after_ms(&headers)
    };
    assert_eq!(after("120"), Some(120_000));
    assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(0));
    assert_eq!(after("soon"), None);
    let hour = std::time::SystemTime::now() + Duration::from_secs(3_600);
    let left = after(&httpdate::fmt_http_date(hour)).unwrap();
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    assert_eq!(answer::retry_after_ms(&HeaderMap::new()), None);
}
