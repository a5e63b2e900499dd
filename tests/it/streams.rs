//! A session's stream, cut wherever it can be cut.

use std::collections::BTreeMap;
use std::time::Duration;

use eventsource_stream::Eventsource;
use futures_util::StreamExt;
use serde_json::{Value, json};
use steadfast_tests::client::{Client, http};
use steadfast_tests::events::EventClient;
use steadfast_tests::ledger::{Behaviour, Ledger};
use steadfast_tests::product::Product;

fn agents(ledger: &Ledger) -> String {
    format!(
        "[providers.scripted]\nkind = \"scripted\"\n[agents.a]\nmodel = \"scripted/demo\"\n\
         [[agents.a.tools]]\nname = \"note\"\ndescription = \"Notes\"\nreplay = \"keyed\"\n\
         http = {{ url = {:?} }}\n",
        ledger.tool_url("note")
    )
}

/// Three steps with a call and one without; reasoning and text in pieces.
fn long_turn() -> String {
    let call = |n: u32| {
        json!({
            "reasoning": format!("thinking about step {n} at some length"),
            "text": format!("this is what step {n} says before its call"),
            "chunks": 6, "delay": 0.004,
            "tools": [{ "tool": "note", "input": { "n": n } }, { "tool": "note", "input": { "n": n + 10 } }],
        })
    };
    let last = json!({ "text": "and this is the end of it all", "chunks": 8, "delay": 0.004 });
    format!("SCRIPT: {}", json!([call(1), call(2), call(3), last]))
}

#[derive(Debug, Clone, PartialEq)]
struct Frame {
    id: String,
    event: String,
    data: Value,
}

/// Reads one connection, up to and with the first frame that is wanted, or to its end.
async fn read(
    client: &Client,
    query: &str,
    cursor: &str,
    wanted: impl Fn(&Frame) -> bool,
) -> Vec<Frame> {
    let url = client.url(&format!("/v1/sessions/s1/events{query}"));
    let request = http().get(url).header("last-event-id", cursor);
    let answer = request.send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    let mut events = answer.bytes_stream().eventsource();
    let mut frames = Vec::new();
    let reading = async {
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            let data = serde_json::from_str(&event.data).unwrap();
            let frame = Frame {
                id: event.id,
                event: event.event,
                data,
            };
            let last = wanted(&frame);
            frames.push(frame);
            if last {
                break;
            }
        }
    };
    if tokio::time::timeout(Duration::from_secs(45), reading)
        .await
        .is_err()
    {
        panic!("the frame never came: {frames:#?}");
    }
    frames
}

/// The committed ones; the parser repeats the last id on frames without one.
fn committed(frames: &[Frame]) -> Vec<Frame> {
    let is_committed =
        |frame: &&Frame| frame.data.get("seq").is_some() && frame.event != "caught_up";
    frames.iter().filter(is_committed).cloned().collect()
}

fn is_end(frame: &Frame) -> bool {
    frame.event == "turn_ended"
}

/// Each attempt of which a connection showed anything, it showed from its start and without a gap;
/// and what it showed of a step is what the step's reply says.
fn check_deltas(frames: &[Frame]) {
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    let mut texts: BTreeMap<(u64, u64), String> = BTreeMap::new();
    for frame in frames {
        let data = &frame.data;
        let step = (
            data["turn"].as_u64().unwrap_or(0),
            data["step"].as_u64().unwrap_or(0),
        );
        match frame.event.as_str() {
            "caught_up" => {
                next.clear();
                texts.clear();
            }
            "delta" => {
                let attempt = format!("{} {step:?} {}", data["epoch"], data["attempt"]);
                let n = data["n"].as_u64().unwrap();
                let first = data["first_n"].as_u64().unwrap_or(n);
                let expected = next.entry(attempt).or_insert(0);
                assert_eq!(first, *expected, "a gap before {frame:?} in {frames:#?}");
                *expected = n + 1;
                if first == 0 {
                    texts.insert(step, String::new());
                }
                let text = data["delta"]["text"].as_str().unwrap_or("");
                if matches!(data["delta"]["type"].as_str(), Some("text" | "reasoning")) {
                    texts.get_mut(&step).unwrap().push_str(text);
                }
            }
            "model_replied" => {
                let Some(shown) = texts.remove(&step) else {
                    continue;
                };
                let parts = data["parts"].to_string();
                let said: String = reply_texts(&data["parts"]);
                assert!(said.starts_with(&shown), "{shown:?} was shown of {parts}");
            }
            _ => {}
        }
    }
}

fn reply_texts(parts: &Value) -> String {
    match parts {
        Value::Array(parts) => parts.iter().map(reply_texts).collect(),
        Value::Object(part) => match part.get("text") {
            Some(Value::String(text)) => text.clone(),
            _ => part.values().map(reply_texts).collect(),
        },
        _ => String::new(),
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_at_every_event_is_the_stream_that_is_not() {
    let ledger = Ledger::start().await;
    let slow = Behaviour::Delay(Duration::from_millis(30), json!({ "ok": true }));
    ledger.usually("note", slow);
    let product = Product::start(&agents(&ledger)).await;
    let client = product.client();
    client.message("s1", "a", "m1", &long_turn()).await.ok();

    // A new connection for each committed event while the turn runs.
    let mut joined: Vec<Frame> = Vec::new();
    while !joined.last().is_some_and(is_end) {
        let cursor = joined
            .last()
            .map_or("0", |frame| frame.id.as_str())
            .to_owned();
        let frames = read(&client, "", &cursor, |frame| {
            frame.data.get("seq").is_some() && frame.event != "caught_up"
        })
        .await;
        check_deltas(&frames);
        joined.extend(committed(&frames));
    }
    let uncut = committed(&read(&client, "?follow=false", "0", |_| false).await);
    assert_eq!(joined, uncut[..joined.len()]);
    let numbers: Vec<String> = uncut.iter().map(|frame| frame.id.clone()).collect();
    let counted: Vec<String> = (1..=uncut.len()).map(|n| n.to_string()).collect();
    assert_eq!(numbers, counted);

    // Every cursor once more, now that it is all committed.
    for (position, frame) in uncut.iter().enumerate() {
        let rest = committed(&read(&client, "?follow=false", &frame.id, |_| false).await);
        assert_eq!(
            rest[..uncut.len() - position - 1],
            uncut[position + 1..],
            "after {}",
            frame.id
        );
    }
}

#[tokio::test]
async fn who_comes_late_sees_the_open_step_from_its_start() {
    let ledger = Ledger::start().await;
    let product = Product::start(&agents(&ledger)).await;
    let client = product.client();
    let words = "one two three four five six seven eight nine ten eleven twelve";
    let script = json!([{ "reasoning": words, "text": words, "chunks": 12, "delay": 0.1 }]);
    client
        .message("s1", "a", "m1", &format!("SCRIPT: {script}"))
        .await
        .ok();

    let mut late = Vec::new();
    for n in [1, 4, 9, 13, 20] {
        let there = |frame: &Frame| frame.data["n"].as_u64() >= Some(n) || is_end(frame);
        let frames = read(&client, "", "0", there).await;
        check_deltas(&frames);
        let client = client.clone();
        late.push(tokio::spawn(
            async move { read(&client, "", "0", is_end).await },
        ));
    }
    let mut saw_all = 0;
    for follower in late {
        let frames = follower.await.unwrap();
        check_deltas(&frames);
        let shown: String = frames
            .iter()
            .filter(|frame| frame.event == "delta")
            .filter_map(|frame| frame.data["delta"]["text"].as_str())
            .collect();
        // Who comes after the end needs no deltas; who came in the middle saw all.
        if !shown.is_empty() {
            assert_eq!(shown, format!("{words}{words}"));
            saw_all += 1;
        }
    }
    assert!(saw_all > 0, "nobody came in the middle");
}

#[tokio::test]
async fn every_turn_ends_with_its_end() {
    let ledger = Ledger::start().await;
    let product = Product::start(&agents(&ledger)).await;
    let client = product.client();
    let made = json!({ "agent": "a", "id": "s1" });
    client.post("/v1/sessions", &made).await.ok();
    let events = EventClient::follow(&client, "s1");
    let scripts = [
        (json!([{ "text": "fine" }]), "completed"),
        (json!([{ "status": 400 }]), "failed"),
        (json!([{ "hang": 60 }]), "cancelled"),
        (
            json!([{ "tool": "note", "input": {} }, { "hang": 60 }]),
            "cancelled",
        ),
        (
            json!([{ "tool": "nobody", "input": {} }, { "text": "well" }]),
            "completed",
        ),
    ];
    for (number, (script, outcome)) in scripts.iter().enumerate() {
        let id = format!("m{number}");
        let sent = client
            .message("s1", "a", &id, &format!("SCRIPT: {script}"))
            .await
            .ok();
        let turn = sent["turn_id"].clone();
        if *outcome == "cancelled" {
            let started = |frame: &steadfast_tests::events::Frame| {
                frame.event == "step_started" && frame.data["turn"] == turn
            };
            events.wait_for("step_started", started).await;
            client
                .post("/v1/sessions/s1/cancel", &json!({ "turn_id": turn }))
                .await
                .ok();
        }
        let ended = |frame: &steadfast_tests::events::Frame| {
            frame.event == "turn_ended" && frame.data["turn"] == turn
        };
        let frame = events.wait_for("turn_ended", ended).await;
        assert_eq!(frame.data["outcome"]["type"], *outcome, "{script}");
    }
    let ends = events
        .frames()
        .into_iter()
        .filter(|frame| frame.event == "turn_ended");
    assert_eq!(ends.count(), scripts.len());
}

#[tokio::test]
async fn a_follower_over_crashes_of_the_node_misses_and_repeats_nothing() {
    let ledger = Ledger::start().await;
    let mut product = Product::start(&agents(&ledger)).await;
    let client = product.client();
    client.message("s1", "a", "m1", &long_turn()).await.ok();
    let events = EventClient::follow(&client, "s1");
    for (kind, times) in [
        ("model_replied", 1),
        ("call_settled", 3),
        ("step_started", 4),
    ] {
        let enough = || {
            let frames = events.frames();
            frames.iter().filter(|frame| frame.event == kind).count() >= times
        };
        events.wait_for(kind, |_| enough()).await;
        product.crash().await;
    }
    events
        .wait_for("turn_ended", |frame| frame.event == "turn_ended")
        .await;
    let followed: Vec<(String, Value)> = events
        .frames()
        .into_iter()
        .filter(|frame| frame.data.get("seq").is_some() && frame.event != "caught_up")
        .map(|frame| (frame.id.unwrap_or_default(), frame.data))
        .collect();
    let uncut = committed(&read(&client, "?follow=false", "0", |_| false).await);
    let uncut: Vec<(String, Value)> = uncut
        .into_iter()
        .map(|frame| (frame.id, frame.data))
        .collect();
    assert_eq!(followed, uncut[..followed.len()]);
    let effects = ledger.effects();
    assert_eq!(effects.len(), 6, "one key for each call: {effects:?}");
}
