//! Sessions come into memory when they are needed, and go.

use std::sync::Arc;

use serde_json::json;
use steadfast_core::command::CommandBody;
use steadfast_core::event::{Event, Rejection, Verdict};
use steadfast_core::id::Seq;
use steadfast_core::input::Policy;
use steadfast_core::receipt::End;
use steadfast_core::session::{Existence, Ownership, Session};
use steadfast_core::transcript::ItemBody;
use steadfast_harness::scripted::ScriptedProvider;
use steadfast_protocol::snapshot;
use steadfast_runtime::sessions::{Admission, AdmitError};
use steadfast_store::directory::{DirectoryQuery, Status};
use steadfast_tools::catalog::Catalog;
use tokio::time::{Duration, Instant, sleep};

use crate::world::{World, agents, calls, command, key, message, script};

#[tokio::test(start_paused = true)]
async fn an_idle_session_is_let_go_and_comes_back() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", "hello").await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    let begun = Instant::now();
    node.until_gone().await;
    let took = begun.elapsed().as_secs();
    assert!((60..=61).contains(&took), "{took} s");
    assert_eq!(world.stores.active.nodes().await.unwrap(), []);
    let session = node.sessions.load(&key).await.unwrap();
    assert!(matches!(session.ownership, Ownership::Released { .. }));
    node.send(&key, "m2", "hello").await;
    assert_eq!(node.end_of(&key, "m2").await, End::Completed);
    insta::assert_snapshot!(world.story(&key).await, @"activated session_created turn_queued command_settled turn_started step_started | model_replied turn_ended | released | activated turn_queued command_settled turn_started step_started | model_replied turn_ended");
}

#[tokio::test(start_paused = true)]
async fn with_many_in_memory_idle_ones_go_soon() {
    let mut world = World::new();
    world.options.actors_relaxed_max = 0;
    let node = world.start().await;
    node.send(&key("s"), "m1", "hello").await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    let begun = Instant::now();
    node.until_gone().await;
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_running_calls_end() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    let sessions = node.sessions.clone();
    let drain = tokio::spawn(async move { sessions.drain().await });
    sleep(Duration::from_secs(1)).await;
    let asked = node.sessions.admit(&key, message("m2", "hello")).await;
    assert_eq!(asked, Err(AdmitError::Draining));
    world.ledger.gate.0.add_permits(1);
    drain.await.unwrap();
    node.crash().await;
    let next = world.start().await;
    assert_eq!(next.end_of(&key, "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["hang", "hang ends"]);
    let crashed = |event: &Event| matches!(event, Event::TurnCrashed { .. });
    assert_eq!(world.count_events(&key, crashed).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_calls_that_go_on_for_too_long() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    let begun = Instant::now();
    node.sessions.drain().await;
    let took = begun.elapsed().as_secs();
    assert!((65..=66).contains(&took), "{took} s");
    node.crash().await;
    let next = world.start().await;
    assert_eq!(next.end_of(&key, "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["hang"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_is_not_waited_for_by_a_drain_and_asked_again_by_the_next_owner() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    let text = script(json!([{ "hang": 5, "tool": "charge", "input": {} }, { "text": "done" }]));
    node.send(&key, "m1", &text).await;
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    node.sessions.drain().await;
    assert!(begun.elapsed().as_secs() < 1, "{:?}", begun.elapsed());
    node.crash().await;
    assert_eq!(world.ledger.lines(), [""; 0]);
    let next = world.start().await;
    assert_eq!(next.end_of(&key, "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["charge"]);
    insta::assert_snapshot!(world.story(&key).await, @"activated session_created turn_queued command_settled turn_started step_started | released | activated | model_replied call_started | call_settled step_started | model_replied turn_ended");
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_its_agent_to_be_configured_again() {
    let mut world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(
        &key,
        "m1",
        &script(json!([{ "hang": 5 }, { "text": "done" }])),
    )
    .await;
    node.crash().await;
    let agents = std::mem::take(&mut world.agents);
    let without = world.start().await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(without.sessions.in_memory(), 0);
    without.crash().await;
    world.agents = agents;
    let next = world.start().await;
    assert_eq!(next.end_of(&key, "m1").await, End::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_session_leaves_its_numbers_only() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &"x".repeat(100_000)).await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    node.sessions
        .admit(&key, command("d1", CommandBody::Delete))
        .await
        .unwrap();
    node.until_gone().await;
    insta::assert_snapshot!(world.story(&key).await, @"deletion_started command_settled session_deleted | released");
    let gone = node.sessions.load(&key).await.unwrap();
    assert_eq!(gone.existence, Existence::Absent);
    let list = node.sessions.list(
        &key.tenant,
        DirectoryQuery {
            limit: 10,
            ..DirectoryQuery::default()
        },
    );
    assert_eq!(list.await.unwrap(), []);
    let cancel = command("c1", CommandBody::Cancel { turn: None });
    let Ok(Admission::Decided { verdict, .. }) = node.sessions.admit(&key, cancel).await else {
        panic!("not decided")
    };
    let reason = Rejection::SessionNotFound;
    assert_eq!(verdict, Verdict::Rejected { reason });
    node.send(&key, "m1", "hello").await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    let again = node.sessions.load(&key).await.unwrap();
    assert!(again.seq > gone.seq && again.epoch > gone.epoch);
}

#[tokio::test(start_paused = true)]
async fn the_directory_follows_the_session() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    let status = async || {
        let query = DirectoryQuery {
            limit: 10,
            ..DirectoryQuery::default()
        };
        let list = node.sessions.list(&key.tenant, query).await.unwrap();
        list.into_iter()
            .map(|(_, entry)| (entry.status, entry.last_turn))
            .next()
    };
    node.send(
        &key,
        "m1",
        &script(json!([{ "hang": 10 }, { "text": "done" }])),
    )
    .await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(status().await, Some((Status::Running, None)));
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        status().await,
        Some((Status::Idle, Some("completed".into())))
    );
}

/// Talks long enough for several packed runs.
async fn long_talk(world: &World, session: &str) -> crate::world::Node {
    let node = world.start().await;
    let key = key(session);
    for n in 0..40 {
        let id = format!("m{n}");
        node.send(&key, &id, &format!("{n} {}", "x".repeat(10_000)))
            .await;
        assert_eq!(node.end_of(&key, &id).await, End::Completed);
    }
    node
}

#[tokio::test(start_paused = true)]
async fn a_long_history_is_packed_once_and_still_answered() {
    let world = World::new();
    let node = long_talk(&world, "s").await;
    let key = key("s");
    let before = node.sessions.load(&key).await.unwrap();
    node.until_gone().await;
    let bytes = world.stores.snapshots.get(&key).await.unwrap().unwrap();
    assert!(bytes.len() < 150_000, "{} bytes", bytes.len());
    let packed = snapshot::decode(&bytes).unwrap().session.transcript;
    let runs = packed
        .items
        .iter()
        .filter(|item| matches!(item.body, ItemBody::Packed { .. }));
    assert!(runs.count() >= 4);
    assert_eq!(packed.tokens, before.transcript.tokens);
    node.send(&key, "more", "hello").await;
    assert_eq!(node.end_of(&key, "more").await, End::Completed);
}

/// The items' numbers; a packed run counts as so many items.
fn shape(session: &Session) -> (u64, u32, Seq) {
    let transcript = &session.transcript;
    let count = transcript.items.iter().map(|item| match &item.body {
        ItemBody::Packed { packed } => packed.items,
        _ => 1,
    });
    let first = transcript.items.get(1).map(|item| item.seq).unwrap();
    (transcript.tokens, count.sum(), first)
}

#[tokio::test(start_paused = true)]
async fn a_compaction_may_end_inside_what_an_older_snapshot_packed() {
    let mut world = World::new();
    let policy = Policy {
        compact_at_tokens: Some(90_000),
        ..Policy::default()
    };
    world.agents = agents(
        Arc::new(ScriptedProvider::new()),
        Catalog::default(),
        policy,
    );
    let node = long_talk(&world, "s").await;
    let key = key("s");
    let through = |session: &Session| Some(session.compactions);
    assert_eq!(node.until(&key, through).await, 1);
    let bytes = world.stores.snapshots.get(&key).await.unwrap().unwrap();
    let snapshot = snapshot::decode(&bytes).unwrap().session;

    let mut cut = false;
    for record in world.records(&key).await {
        for entry in &record.entries {
            for event in &entry.events {
                if let Event::TranscriptCompacted { through, .. } = event {
                    cut = snapshot.transcript.items.iter().any(|item| {
                        matches!(&item.body, ItemBody::Packed { packed }
                            if packed.first_seq <= *through && *through < packed.last_seq)
                    });
                }
            }
        }
    }
    assert!(cut, "the compaction does not end inside a packed run");
    node.crash().await;
    let next = world.start().await;
    next.send(&key, "more", "hello").await;
    assert_eq!(next.end_of(&key, "more").await, End::Completed);
    let mut whole = Session::new(key.clone());
    for record in world.records(&key).await {
        for entry in &record.entries {
            for event in &entry.events {
                steadfast_core::apply(&mut whole, entry.at, event);
            }
        }
    }
    let opened = next.sessions.load(&key).await.unwrap();
    assert_eq!(shape(&opened), shape(&whole));
}

#[tokio::test(start_paused = true)]
async fn a_fork_begins_with_a_copy() {
    let world = World::new();
    let node = long_talk(&world, "s").await;
    let (from, to) = (key("s"), key("copy"));
    node.until_gone().await;
    let forked = node
        .sessions
        .fork(&from, None, &to, "f1".parse().unwrap())
        .await;
    assert!(
        matches!(forked, Ok(Admission::Decided { .. })),
        "{forked:?}"
    );
    node.send(&to, "m1", "hello").await;
    assert_eq!(node.end_of(&to, "m1").await, End::Completed);
    let source = node.sessions.load(&from).await.unwrap();
    let ended = source
        .receipts
        .get(&"m0".parse().unwrap())
        .unwrap()
        .progress;
    let Some(steadfast_core::receipt::Progress::Ended { seq, .. }) = ended else {
        panic!("{ended:?}")
    };
    let early = key("early");
    let forked = node
        .sessions
        .fork(&from, Some(seq), &early, "f2".parse().unwrap())
        .await;
    assert!(
        matches!(forked, Ok(Admission::Decided { .. })),
        "{forked:?}"
    );
    let copy = node.sessions.load(&early).await.unwrap();
    assert!(copy.transcript.tokens < source.transcript.tokens / 10);
    let within = node
        .sessions
        .fork(&from, Some(Seq(seq.0 - 1)), &early, "f3".parse().unwrap());
    assert!(within.await.is_err());
}
