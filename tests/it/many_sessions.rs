//! Many sessions at once: after a crash all go on, whether anybody asks or not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use steadfast_tests::client::Client;
use steadfast_tests::ledger::{Behaviour, Entry, Ledger};
use steadfast_tests::product::Product;

const RULES: [&str; 3] = ["safe", "keyed", "never"];

/// An agent on the scripted model with a tool of each rule, named after it.
fn config(ledger: &Ledger) -> String {
    let mut config = "[providers.scripted]\nkind = \"scripted\"\n\
                      [agents.clerk]\nmodel = \"scripted/demo\"\n"
        .to_owned();
    for rule in RULES {
        config.push_str(&format!(
            "[[agents.clerk.tools]]\nname = \"{rule}\"\ndescription = \"Pays\"\n\
             replay = \"{rule}\"\ninput_schema = {{ type = \"object\" }}\n\
             http = {{ url = \"{}\" }}\n",
            ledger.tool_url(rule)
        ));
    }
    config
}

/// A message that has the model call one tool and then say a word.
fn script(tool: &str) -> String {
    let steps = json!([{ "tool": tool, "input": {} }, { "text": "done" }]);
    format!("SCRIPT: {steps}")
}

/// All committed events of a session.
async fn log(client: &Client, session: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/log?limit=1000");
    let page = client.get(&path).await.ok();
    let records = page["records"].as_array().expect("records").clone();
    records
        .iter()
        .flat_map(|record| record["entries"].as_array().unwrap().clone())
        .flat_map(|entry| entry["events"].as_array().unwrap().clone())
        .collect()
}

/// How each turn of a log ended; a turn that ended twice is a failure.
fn endings(events: &[Value]) -> BTreeMap<u64, String> {
    let mut endings = BTreeMap::new();
    for event in events.iter().filter(|event| event["type"] == "turn_ended") {
        let turn = event["turn"].as_u64().unwrap();
        let how = event["outcome"]["type"].as_str().unwrap().to_owned();
        assert_eq!(endings.insert(turn, how), None, "turn {turn} ended twice");
    }
    endings
}

/// Keys under which a tool was asked, with how often.
fn asked(entries: &[Entry], tool: &str) -> BTreeMap<String, usize> {
    let mut asked = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.tool == tool) {
        *asked.entry(entry.key.clone()).or_default() += 1;
    }
    asked
}

#[tokio::test]
async fn all_go_on_after_a_crash_without_being_asked() {
    const SESSIONS: usize = 24;
    let ledger = Ledger::start().await;
    for rule in RULES {
        ledger.usually(rule, Behaviour::EffectThenSilence);
    }
    let mut product = Product::start(&config(&ledger)).await;
    let client = product.client();
    for number in 0..SESSIONS {
        let tool = RULES[number % RULES.len()];
        let session = format!("s{number}");
        client
            .message(&session, "clerk", "m1", &script(tool))
            .await
            .ok();
    }
    let all_asked = |entries: &[Entry]| entries.len() == SESSIONS;
    ledger
        .wait_until("a request of each session", all_asked)
        .await;
    product.kill().await;
    for rule in RULES {
        ledger.usually(rule, Behaviour::Answer(json!({ "ok": true })));
    }
    product.start_again().await;
    // Nobody sends, follows or looks at a session: what is waited for is the tools' own doing.
    let repeated = |entries: &[Entry]| entries.len() == SESSIONS + SESSIONS / 3 * 2;
    ledger.wait_until("the repeated calls", repeated).await;
    for number in 0..SESSIONS {
        let path = format!("/v1/sessions/s{number}/messages/m1?wait=30s");
        assert_eq!(client.get(&path).await.ok()["state"], "completed");
    }
    let entries = ledger.entries();
    for (rule, times) in [("safe", 2), ("keyed", 2), ("never", 1)] {
        let asked = asked(&entries, rule);
        let expected: BTreeSet<usize> = [times].into();
        assert_eq!(asked.len(), SESSIONS / 3, "{rule}");
        assert_eq!(
            asked.into_values().collect::<BTreeSet<_>>(),
            expected,
            "{rule}"
        );
    }
}

#[tokio::test]
async fn kills_at_random_lose_nothing_and_repeat_only_what_may_be() {
    const SESSIONS: usize = 9;
    const KILLS: usize = 5;
    let seed = std::env::var("STEADFAST_SEED").map_or_else(
        |_| std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
        |seed| seed.parse().unwrap(),
    );
    println!("kills at random: STEADFAST_SEED={seed}");
    let ledger = Ledger::start().await;
    for rule in RULES {
        let pause = Duration::from_millis(120);
        ledger.usually(rule, Behaviour::Delay(pause, json!({ "ok": true })));
    }
    let mut product = Product::start(&config(&ledger)).await;
    let client = product.client();
    let mut state = seed;
    let mut in_doubt = 0;
    for round in 0..KILLS {
        for number in 0..SESSIONS {
            let tool = RULES[number % RULES.len()];
            let (session, id) = (format!("s{number}"), format!("m{round}"));
            client
                .message(&session, "clerk", &id, &script(tool))
                .await
                .ok();
        }
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        tokio::time::sleep(Duration::from_millis((state >> 33) % 300)).await;
        product.crash().await;
    }
    for number in 0..SESSIONS {
        let session = format!("s{number}");
        for round in 0..KILLS {
            let path = format!("/v1/sessions/{session}/messages/m{round}?wait=60s");
            let receipt = client.get(&path).await.ok();
            let exhausted = receipt["error"]["code"] == "recovery_exhausted";
            assert!(
                receipt["state"] == "completed" || exhausted,
                "{session}: {receipt}"
            );
        }
        let events = log(&client, &session).await;
        assert_eq!(endings(&events).len(), KILLS, "{session}");
        in_doubt += events
            .iter()
            .filter(|event| event["settlement"] == "in_doubt")
            .count();
        let settled = events
            .iter()
            .filter(|event| event["type"] == "call_settled");
        let calls: Vec<&str> = settled
            .map(|event| event["call"].as_str().unwrap())
            .collect();
        let distinct: BTreeSet<&str> = calls.iter().copied().collect();
        assert_eq!(
            calls.len(),
            distinct.len(),
            "{session}: a call settled twice"
        );
    }
    println!("kills at random: {in_doubt} calls in doubt");
    let repeated: Vec<(String, usize)> = asked(&ledger.entries(), "never")
        .into_iter()
        .filter(|(_, times)| *times > 1)
        .collect();
    assert_eq!(repeated, [], "calls that must not be repeated");
}
