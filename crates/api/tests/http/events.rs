//! The event stream and the log.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use steadfast_api::{Limits, Options};

use crate::world::{Frame, World, request};

fn check_committed(frames: &[Frame], mut cursor: u64) -> u64 {
    for (id, name, data) in frames {
        let Some(id) = id else { continue };
        assert_eq!(*id, cursor + 1, "an event was left out or repeated");
        assert_eq!((&data["seq"], &data["type"]), (&json!(id), &json!(name)));
        assert!(data["at"].is_u64() && data["epoch"].is_u64(), "{data}");
        cursor = *id;
    }
    cursor
}

#[tokio::test]
async fn a_stream_resumes_without_gap_or_repetition() {
    let world = World::new().await;
    world.session("s1").await;
    let mut stream = world.follow("s1", 0).await;
    let script = json!([
        {"text": "abcdef", "chunks": 6, "delay": 0.02, "tool": "get_weather", "input": {}},
        {"text": "done"},
    ]);
    world.begin("s1", "m1", script).await.ok(202);
    let mut frames = Vec::new();
    loop {
        let frame = stream.next().await.unwrap();
        frames.push(frame);
        if frames
            .last()
            .is_some_and(|(_, name, _)| name == "turn_ended")
        {
            break;
        }
    }
    let last = check_committed(&frames, 0);
    let deltas: Vec<&Value> = frames
        .iter()
        .filter(|(_, name, data)| name == "delta" && data["step"] == 1)
        .map(|(_, _, data)| data)
        .filter(|data| data["delta"]["type"] == "text")
        .collect();
    let text: String = deltas
        .iter()
        .map(|data| data["delta"]["text"].as_str().unwrap())
        .collect();
    // The last ones may be overtaken by the reply that holds them all.
    assert!(!text.is_empty() && "abcdef".starts_with(&text), "{text}");
    let caught_up = frames.iter().filter(|(_, name, _)| name == "caught_up");
    assert_eq!(caught_up.count(), 1);
    for cursor in 0..=last {
        let path = format!("/v1/sessions/s1/events?follow=false&after={cursor}");
        let answer = world.get(&path).await.ok(200);
        let text = answer.as_str().unwrap();
        let ids: Vec<u64> = text
            .lines()
            .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
            .collect();
        let tail = ids.last().copied().unwrap_or(cursor);
        assert_eq!(ids, (cursor + 1..=tail).collect::<Vec<_>>());
        assert!(tail >= last);
        assert!(text.ends_with(&format!("event: caught_up\ndata: {{\"seq\":{tail}}}\n\n")));
    }
}

#[tokio::test]
async fn who_comes_late_sees_the_open_step_from_its_start() {
    let world = World::new().await;
    world.session("s1").await;
    let mut early = world.follow("s1", 0).await;
    let script = json!([{"text": "ab", "chunks": 2, "delay": 60}]);
    world.begin("s1", "m1", script).await.ok(202);
    let shown = early.until("delta").await;
    assert_eq!(
        shown.2["delta"],
        json!({"type": "text", "part": 0, "text": "a"})
    );
    let mut late = world.follow("s1", 0).await;
    late.until("caught_up").await;
    assert_eq!(late.next().await, Some(shown));
}

#[tokio::test]
async fn last_event_id_goes_before_after() {
    let world = World::new().await;
    world.session("s1").await;
    let ask = |id: &str| {
        Request::builder()
            .uri("/v1/sessions/s1/events?after=0&follow=false")
            .header("last-event-id", id)
            .body(Body::empty())
            .unwrap()
    };
    let whole = world.send(ask("")).await.ok(200);
    assert!(whole.as_str().unwrap().contains("id: 1\n"));
    let rest = world.send(ask("1")).await.ok(200);
    let rest = rest.as_str().unwrap();
    assert!(
        !rest.contains("id: 1\n") && rest.contains("id: 2\n"),
        "{rest}"
    );
    assert_eq!(
        world.send(ask("x")).await.problem(),
        (400, "header_invalid")
    );
    assert_eq!(
        world.send(ask("999")).await.problem(),
        (409, "cursor_ahead")
    );
}

#[tokio::test]
async fn streams_are_limited_and_end_at_shutdown() {
    let world = World::with(Options {
        limits: Limits {
            streams_max: 2,
            ..Limits::default()
        },
        ..Options::default()
    })
    .await;
    world.session("s1").await;
    let first = world.follow("s1", 0).await;
    let second = world.follow("s1", 0).await;
    let third = world.get("/v1/sessions/s1/events").await;
    assert_eq!(third.problem(), (503, "streams_full"));
    assert!(third.headers.contains_key("retry-after"));
    drop(second);
    let fourth = world.follow("s1", 0).await;
    world.shutdown.cancel();
    for stream in [first, fourth] {
        check_committed(&stream.rest().await, 0);
    }
    let refused = world.get("/v1/sessions/s1/events").await;
    assert_eq!(refused.problem(), (503, "draining"));
}

#[tokio::test]
async fn a_removal_ends_the_stream() {
    let world = World::new().await;
    world.session("s1").await;
    let mut stream = world.follow("s1", 0).await;
    stream.until("caught_up").await;
    world.delete("/v1/sessions/s1").await.ok(202);
    let rest = stream.rest().await;
    assert!(rest.iter().any(|(_, name, _)| name == "deletion_started"));
}

#[tokio::test]
async fn many_followers_see_the_same() {
    let world = World::new().await;
    world.session("s1").await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(world.follow("s1", 0).await);
    }
    let script = json!([{"text": "abcdefghij", "chunks": 10}]);
    world.say("s1", "m1", script).await.ok(200);
    let mut seen: Vec<Vec<Frame>> = Vec::new();
    for stream in &mut streams {
        let mut frames = Vec::new();
        loop {
            let frame = stream.next().await.unwrap();
            let ended = frame.1 == "turn_ended";
            frames.push(frame);
            if ended {
                break;
            }
        }
        check_committed(&frames, 0);
        seen.push(
            frames
                .into_iter()
                .filter(|frame| frame.0.is_some())
                .collect(),
        );
    }
    assert!(seen.iter().all(|frames| *frames == seen[0]));
}

#[tokio::test]
async fn the_log_says_what_the_stream_says() {
    let world = World::new().await;
    world.session("s1").await;
    world
        .say("s1", "m1", json!([{"text": "one"}]))
        .await
        .ok(200);
    let mut logged = Vec::new();
    let mut after = 0;
    loop {
        let path = format!("/v1/sessions/s1/log?limit=1&after={after}");
        let page = world.get(&path).await.ok(200);
        for record in page["records"].as_array().unwrap() {
            for entry in record["entries"].as_array().unwrap() {
                assert!(entry["cause"]["type"].is_string());
                logged.extend(entry["events"].as_array().unwrap().clone());
            }
        }
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    let mut stream = world.follow("s1", 0).await;
    for event in &logged {
        let sent = loop {
            let frame = stream.next().await.unwrap();
            if frame.0.is_some() {
                break frame;
            }
        };
        assert_eq!(&sent.2, event);
    }
    let names: Vec<&Value> = logged.iter().map(|event| &event["type"]).collect();
    assert!(names.contains(&&json!("turn_ended")), "{names:?}");
}

#[tokio::test]
async fn a_head_request_opens_no_stream() {
    let world = World::new().await;
    world.session("s1").await;
    let head = request(Method::HEAD, "/v1/sessions/s1/events", None);
    let answer = world.send(head).await;
    assert_eq!((answer.status, answer.body), (StatusCode::OK, json!("")));
    let metrics = world.get("/metrics").await.ok(200);
    assert!(
        metrics
            .as_str()
            .unwrap()
            .contains("steadfast_streams_open 0")
    );
}
