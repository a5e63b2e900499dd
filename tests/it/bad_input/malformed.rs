//! What is not HTTP, or not quite.

use steadfast_tests::product::Product;

use super::socket::exchange;
use super::{AGENTS, check_well};

/// What it is, the bytes, and the statuses that may answer; 0 is a connection that is closed.
const MALFORMED: &[(&str, &[u8], &[u16])] = &[
    (
        "no HTTP",
        b"hello\r\n\r\n",
        &[400],
    ),
    (
        "binary",
        b"\x00\x01\x02\xff\r\n\r\n",
        &[400],
    ),
    (
        "TLS",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &[400],
    ),
    (
        "an HTTP/2 preface",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0, 400, 505],
    ),
    (
        "HTTP/3.7",
        b"GET / HTTP/3.7\r\nHost: localhost\r\n\r\n",
        &[400, 505],
    ),
    (
        "no version",
        b"GET /\r\nHost: localhost\r\n\r\n",
        &[400],
    ),
    (
        "a header without a colon",
        b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        &[400],
    ),
    (
        "a zero byte",
        b"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
        &[400],
    ),
    (
        "a space in the path",
        b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[400],
    ),
    (
        "two lengths",
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        &[400],
    ),
    (
        "a negative length",
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        &[400],
    ),
    (
        "a length and chunks",
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &[400, 415],
    ),
    (
        "bad chunks",
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        &[400],
    ),
    (
        "a huge length",
        b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 18446744073709551615\r\n\r\n{}",
        &[400, 413, 431],
    ),
    (
        "no host",
        b"GET /v1/agents HTTP/1.1\r\n\r\n",
        &[400, 403],
    ),
    (
        "another host",
        b"GET /v1/agents HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        &[403],
    ),
    (
        "a whole URL",
        b"GET http://evil.example/v1/agents HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[400, 403],
    ),
    (
        "CONNECT",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[400, 403, 404, 405],
    ),
    (
        "a star",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[400, 403, 404, 405],
    ),
];

#[tokio::test]
async fn malformed_http_ends_the_connection_and_nothing_else() {
    let mut product = Product::start(AGENTS).await;
    let address = product.address();
    let (long, host) = ("x".repeat(100_000), "Host: localhost\r\n");
    let large = format!("GET /v1/agents HTTP/1.1\r\n{host}X: {long}\r\n\r\n");
    let many = "X: y\r\n".repeat(500);
    let many = format!("GET /v1/agents HTTP/1.1\r\n{host}{many}\r\n");
    let path = format!("GET /{long} HTTP/1.1\r\n{host}\r\n");
    let mut cases = MALFORMED.to_vec();
    cases.push(("a large header", large.as_bytes(), &[431]));
    cases.push(("many headers", many.as_bytes(), &[431]));
    cases.push(("a long path", path.as_bytes(), &[414, 431]));
    let mut faults = Vec::new();
    for (what, bytes, statuses) in cases {
        let answer = exchange(address, bytes).await;
        if !statuses.contains(&answer.status) {
            faults.push(format!("{what}: {} {}", answer.status, answer.text()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    check_well(&mut product).await;
}
