use super::*;

#[tokio::test]
async fn a_check_is_posted_beside_the_tool_under_the_same_key() {
    let server = Server::answering("200 OK", br#"{"state":"done","result":"paid"}"#).await;
    for (given, asked) in [
        ("", "/refund/check"),
        ("/", "/refund/check"),
        ("?v=1", "/refund/check?v=1"),
    ] {
        let answer = tool(&format!("{}{given}", server.url))
            .check(job(json!({ "id": 7 })))
            .await;
        assert_eq!(answer, CheckAnswer::Done(ToolOutput::text("paid").into()));
        let request = server.requests().pop().unwrap();
        assert_eq!(request.line, format!("POST {asked} HTTP/1.1"));
        assert_eq!(request.body, r#"{"id":7}"#);
        assert_eq!(request.header("idempotency-key"), Some(KEY));
        assert_eq!(request.header("steadfast-epoch"), Some("4"));
    }
}

#[tokio::test]
async fn a_check_without_a_clear_answer_is_unknown() {
    let envelope = "200 OK\r\ncontent-type: application/vnd.steadfast.result+json";
    let done_twice: &[u8] = br#"{"state":"done","result":{"output":"paid"}}"#;
    let cases: [(&str, &[u8], CheckAnswer); 6] = [
        ("200 OK", br#"{"state":"not_done"}"#, CheckAnswer::NotDone),
        (
            envelope,
            done_twice,
            CheckAnswer::Done(ToolOutput::text("paid").into()),
        ),
        ("200 OK", b"done", CheckAnswer::Unknown),
        (
            "404 Not Found",
            br#"{"state":"not_done"}"#,
            CheckAnswer::Unknown,
        ),
        ("500 Oops", b"", CheckAnswer::Unknown),
        (
            "302 Found\r\nlocation: /",
            br#"{"state":"not_done"}"#,
            CheckAnswer::Unknown,
        ),
    ];
    for (head, body, expected) in cases {
        let server = Server::answering(head, body).await;
        assert_eq!(
            tool(&server.url).check(job(json!({}))).await,
            expected,
            "{head}"
        );
    }
    let hanging = Server::start(Reply::Hang(Vec::new())).await;
    let answer = tool(&hanging.url).check(job_within(json!({}), 100)).await;
    assert_eq!(answer, CheckAnswer::Unknown);
}
