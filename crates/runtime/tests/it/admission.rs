//! The one path on which commands become durable.

use std::sync::Arc;

use steadfast_core::command::CommandBody;
use steadfast_core::content::{ContentPart, Stored};
use steadfast_core::event::{Event, Rejection, Verdict};
use steadfast_core::id::SessionKey;
use steadfast_core::input::Policy;
use steadfast_core::receipt::End;
use steadfast_harness::scripted::ScriptedProvider;
use steadfast_runtime::sessions::{Admission, AdmitError};
use steadfast_store::directory::{DirectoryQuery, Status};
use steadfast_tools::catalog::Catalog;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use crate::world::{World, agents, calls, command, key, message};

#[tokio::test(start_paused = true)]
async fn a_refused_command_leaves_nothing() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    let cancel = command("c1", CommandBody::Cancel { turn: None });
    let Ok(Admission::Decided { verdict, .. }) = node.sessions.admit(&key, cancel).await else {
        panic!("not decided")
    };
    let reason = Rejection::SessionNotFound;
    assert_eq!(verdict, Verdict::Rejected { reason });
    node.until_gone().await;
    assert_eq!(world.log.appends(), 0);
    assert_eq!(world.stores.active.nodes().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn many_at_once_to_a_new_session_meet_one_owner() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    let mut asking = JoinSet::new();
    for n in 0..50 {
        let (sessions, key) = (node.sessions.clone(), key.clone());
        asking.spawn(async move {
            sessions
                .admit(&key, message(&format!("m{n}"), "hello"))
                .await
        });
    }
    while let Some(asked) = asking.join_next().await {
        let asked = asked.unwrap();
        assert!(matches!(asked, Ok(Admission::Decided { .. })), "{asked:?}");
    }
    for n in 0..50 {
        assert_eq!(node.end_of(&key, &format!("m{n}")).await, End::Completed);
    }
    let activated = |event: &Event| matches!(event, Event::Activated { .. });
    assert_eq!(world.count_events(&key, activated).await, 1);
    let created = |event: &Event| matches!(event, Event::SessionCreated { .. });
    assert_eq!(world.count_events(&key, created).await, 1);
}

#[tokio::test(start_paused = true)]
async fn without_room_a_command_goes_through_the_mailbox() {
    let mut world = World::new();
    world.options.actors_max = 1;
    let node = world.start().await;
    let (busy, other) = (key("busy"), key("other"));
    node.send(&busy, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    assert_eq!(node.send(&other, "m2", "hello").await, Admission::Accepted);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.story(&other).await, "");
    world.ledger.gate.0.add_permits(1);
    assert_eq!(node.end_of(&busy, "m1").await, End::Completed);
    assert_eq!(node.end_of(&other, "m2").await, End::Completed);
    let letters = world
        .stores
        .mailbox
        .pending(&other, Default::default(), 9)
        .await;
    assert_eq!(letters.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn mail_is_decided_before_what_comes_after_it() {
    let mut world = World::new();
    world.options.actors_max = 0;
    let node = world.start().await;
    let key = key("s");
    assert_eq!(node.send(&key, "m1", "first").await, Admission::Accepted);
    node.crash().await;
    world.options.actors_max = 10;
    let node = world.start().await;
    let Admission::Decided { session, .. } = node.send(&key, "m2", "second").await else {
        panic!("not decided")
    };
    assert!(session.receipts.get(&message("m1", "").id).is_some());
    assert_eq!(node.end_of(&key, "m2").await, End::Completed);
    assert_eq!(turns(&world, &key).await, ["m1", "m2"]);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_mail_is_taken_in_order_and_before_what_comes_after() {
    let mut world = World::new();
    world.options.actors_max = 0;
    world.agents = agents(
        Arc::new(ScriptedProvider::new()),
        Catalog::default(),
        Policy {
            queue_max: 1_000,
            ..Policy::default()
        },
    );
    let node = world.start().await;
    let key = key("s");
    for n in 0..200 {
        let sent = node.send(&key, &format!("m{n}"), "hello").await;
        assert_eq!(sent, Admission::Accepted);
    }
    node.crash().await;
    world.options.actors_max = 10;
    let node = world.start().await;
    node.send(&key, "m200", "hello").await;
    assert_eq!(node.end_of(&key, "m200").await, End::Completed);
    let expected: Vec<String> = (0..=200).map(|n| format!("m{n}")).collect();
    assert_eq!(turns(&world, &key).await, expected);
    let letters = world.stores.mailbox.pending(&key, Default::default(), 9);
    assert_eq!(letters.await.unwrap(), []);
}

/// The messages in the order in which they were taken.
async fn turns(world: &World, key: &SessionKey) -> Vec<String> {
    let records = world.records(key).await;
    let entries = records.iter().flat_map(|record| &record.entries);
    entries
        .flat_map(|entry| &entry.events)
        .filter_map(|event| match event {
            Event::TurnQueued { message, .. } => Some(message.to_string()),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_not_configured_is_named() {
    let world = World::new();
    let node = world.start().await;
    let mut message = message("m1", "hello");
    if let CommandBody::Submit { new: Some(new), .. } = &mut message.body {
        new.agent = "nobody".parse().unwrap();
    }
    let asked = node.sessions.admit(&key("s"), message).await;
    assert_eq!(asked, Err(AdmitError::AgentUnknown("nobody".into())));
    assert_eq!(world.log.appends(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_corrupt_log_costs_its_session_only() {
    let world = World::new();
    let node = world.start().await;
    let (bad, good) = (key("bad"), key("good"));
    node.send(&bad, "m1", "hello").await;
    assert_eq!(node.end_of(&bad, "m1").await, End::Completed);
    node.until_gone().await;
    world.log.corrupt(&bad);
    let asked = node.sessions.admit(&bad, message("m2", "hello")).await;
    assert!(
        matches!(asked, Err(AdmitError::Quarantined(_))),
        "{asked:?}"
    );
    node.send(&good, "m1", "hello").await;
    assert_eq!(node.end_of(&good, "m1").await, End::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_went_bad_is_listed_as_quarantined() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", "hello").await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    node.until_gone().await;
    world.log.corrupt_last(&key);
    let asked = node.sessions.admit(&key, message("m2", "hello")).await;
    assert!(
        matches!(asked, Err(AdmitError::Quarantined(_))),
        "{asked:?}"
    );
    let query = DirectoryQuery {
        limit: 10,
        ..DirectoryQuery::default()
    };
    let list = node.sessions.list(&key.tenant, query).await.unwrap();
    let shown: Vec<_> = list.iter().map(|(_, entry)| entry.status).collect();
    assert_eq!(shown, [Status::Quarantined]);
}

#[tokio::test(start_paused = true)]
async fn a_large_message_stands_beside_the_log() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    let text = "x".repeat(100_000);
    node.send(&key, "m1", &text).await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    let records = world.records(&key).await;
    let events = records
        .iter()
        .flat_map(|record| &record.entries)
        .flat_map(|entry| &entry.events);
    let content = events.into_iter().find_map(|event| match event {
        Event::TurnQueued { content, .. } => Some(content.clone()),
        _ => None,
    });
    let [Stored::Blob(blob)] = content.as_deref().unwrap() else {
        panic!("{content:?}")
    };
    let bytes = node.sessions.blob(&key, blob.hash).await.unwrap().unwrap();
    let part: ContentPart = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(part, ContentPart::Text { text });
}

#[tokio::test(start_paused = true)]
async fn a_large_message_to_a_session_that_is_not_there_leaves_no_blob() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    let text = "x".repeat(100_000);
    let mut large = message("m1", &text);
    if let CommandBody::Submit { new, .. } = &mut large.body {
        *new = None;
    }
    let Ok(Admission::Decided { verdict, .. }) = node.sessions.admit(&key, large).await else {
        panic!("not decided")
    };
    let reason = Rejection::SessionNotFound;
    assert_eq!(verdict, Verdict::Rejected { reason });
    let part = ContentPart::Text { text };
    let hash = steadfast_core::content::BlobHash::of(&serde_json::to_vec(&part).unwrap());
    assert_eq!(node.sessions.blob(&key, hash).await, Ok(None));
}
