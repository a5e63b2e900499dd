//! Requests without sense, from a seed that is told when one of them finds something.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use steadfast_tests::product::Product;

use super::socket::{Answer, exchange};
use super::{AGENTS, check_well, is_problem, routes};

const REQUESTS: usize = 600;

/// Numbers that are random enough (SplitMix64) and the same for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn bytes(&mut self, max: usize) -> Vec<u8> {
        let count = self.below(max);
        (0..count).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

const PARTS: &[&str] = &[
    "a",
    "s1",
    "m1",
    "1-2-3",
    "approval-1-2-3",
    "%00",
    "%FF",
    "..",
    "",
    "x",
    "%2e%2e",
    "0",
    "-1",
];

const FIELDS: &[&str] = &[
    "id",
    "agent",
    "content",
    "metadata",
    "tags",
    "when_busy",
    "turn_id",
    "replaces",
    "type",
    "text",
    "source",
    "data",
    "url",
    "output",
    "error",
    "approved",
    "reason",
    "at_seq",
    "active_tools",
    "inactive_tools",
    "nonsense",
];

const LEAVES: &[&str] = &[
    "null",
    "true",
    "0",
    "-1",
    "1e400",
    "18446744073709551616",
    "\"\"",
    "\"a\"",
    "\"s1\"",
    "\"steer\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "nul",
    "\"",
];

fn json(random: &mut Random, depth: usize) -> String {
    match random.below(6) {
        0 if depth > 0 => {
            let items: Vec<_> = (0..random.below(4))
                .map(|_| json(random, depth - 1))
                .collect();
            format!("[{}]", items.join(","))
        }
        1..=3 if depth > 0 => {
            let count = random.below(5);
            let fields: Vec<_> = (0..count)
                .map(|_| format!("\"{}\":{}", random.one(FIELDS), json(random, depth - 1)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        _ => random.one(LEAVES).to_owned(),
    }
}

fn path(random: &mut Random, routes: &[(String, String)]) -> String {
    let (_, route) = &routes[random.below(routes.len())];
    let filled = super::filled(route, |_| "{}".to_owned());
    let mut path = filled.split("{}").collect::<Vec<_>>().join("\0");
    while let Some(at) = path.find('\0') {
        path.replace_range(at..=at, random.one(PARTS));
    }
    match random.below(4) {
        0 => {
            let names = [
                "after", "limit", "follow", "wait", "status", "tag", "before", "x",
            ];
            let values = [
                "0",
                "-1",
                "9999999999999999999999",
                "%FF",
                "",
                "1ms",
                "false",
                "a&a",
            ];
            format!("{path}?{}={}", random.one(&names), random.one(&values))
        }
        _ => path,
    }
}

fn wild(random: &mut Random, routes: &[(String, String)]) -> Vec<u8> {
    let methods = [
        "GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "X",
    ];
    // A stream ends only when it is told not to follow.
    let path = path(random, routes).replace("/events", "/events?follow=false&");
    let body = match random.below(8) {
        0 => random.bytes(64),
        1 => "[".repeat(random.below(400)).into_bytes(),
        _ => json(random, 3).into_bytes(),
    };
    let headers = [
        "Content-Type: application/json\r\n",
        "Content-Type: text/plain\r\n",
        "Idempotency-Key: a b\r\n",
        "Idempotency-Key: k1\r\n",
        "Last-Event-ID: -7\r\n",
        "Origin: https://evil.example\r\n",
        "Content-Encoding: gzip\r\n",
        "Expect: 100-continue\r\n",
        "Authorization: Bearer x\r\n",
        "X: \u{fffd}\r\n",
    ];
    let mut head = format!(
        "{} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
        random.one(&methods)
    );
    head.push_str(headers[0]);
    if random.below(3) == 0 {
        head.push_str(random.one(&headers));
    }
    let mut bytes = format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend(body);
    // Some are damaged on the way.
    if random.below(10) == 0 {
        let at = random.below(bytes.len());
        bytes[at] = random.next().to_le_bytes()[0];
    }
    bytes
}

/// What is wrong with an answer. One without a body is of the HTTP parser or to a HEAD.
fn fault(answer: &Answer) -> Option<String> {
    let of_parser = matches!(answer.status, 400 | 414 | 431 | 505) && answer.content_type.is_none();
    let nothing = answer.status == 0 && answer.body.is_empty();
    if of_parser
        || nothing
        || (200..300).contains(&answer.status)
        || answer.body.is_empty() && answer.status < 500
    {
        return None;
    }
    is_problem(answer, &[]).err()
}

#[tokio::test]
async fn wild_requests_get_an_answer_and_do_no_harm() {
    let given = std::env::var("STEADFAST_FUZZ_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed: u64 = given.unwrap_or_else(|| u64::from(now().subsec_nanos()));
    println!("STEADFAST_FUZZ_SEED={seed}");
    let mut product = Product::start(AGENTS).await;
    let address = product.address();
    let client = product.client();
    client.message("s1", "a", "m1", "hello").await.ok();
    let routes = routes(&client).await;
    let mut random = Random(seed);
    for number in 0..REQUESTS {
        let bytes = wild(&mut random, &routes);
        let asked = tokio::time::timeout(Duration::from_secs(40), exchange(address, &bytes)).await;
        let shown = String::from_utf8_lossy(&bytes);
        let told = match &asked {
            Ok(answer) => fault(answer),
            Err(_) => Some("no answer came".to_owned()),
        };
        assert_eq!(told, None, "seed {seed}, request {number}:\n{shown}");
    }
    check_well(&mut product).await;
}
