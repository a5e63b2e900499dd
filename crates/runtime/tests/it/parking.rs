//! An idle session stays in memory, owned, and nothing runs for it.

use futures_util::future::join_all;
use steadfast_core::receipt::End;
use steadfast_core::session::Ownership;
use tokio::runtime::Handle;
use tokio::time::{Duration, sleep};

use crate::world::{World, key, message};

/// Until what is done a moment after a turn is done.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn an_idle_session_has_no_task_and_its_owner_goes_on() {
    let world = World::new();
    let node = world.start().await;
    node.send(&key("first"), "m1", "hello").await;
    assert_eq!(node.end_of(&key("first"), "m1").await, End::Completed);
    sleep(SOON).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let keys: Vec<_> = (0..20).map(|number| key(&format!("s{number}"))).collect();
    for key in &keys {
        node.send(key, "m1", "hello").await;
        assert_eq!(node.end_of(key, "m1").await, End::Completed);
    }
    sleep(SOON).await;
    assert_eq!(node.sessions.in_memory(), 21);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks);
    node.send(&keys[0], "m2", "hello").await;
    assert_eq!(node.end_of(&keys[0], "m2").await, End::Completed);
    insta::assert_snapshot!(world.story(&keys[0]).await, @"activated session_created turn_queued command_settled turn_started step_started | model_replied turn_ended | turn_queued command_settled turn_started step_started | model_replied turn_ended");
}

#[tokio::test(start_paused = true)]
async fn a_parked_session_hears_all_who_knock_at_once() {
    let mut world = World::new();
    world.options.door_commands_max = 1;
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m", "hello").await;
    sleep(SOON).await;
    let ids: Vec<String> = (0..20).map(|number| format!("m{number}")).collect();
    join_all(ids.iter().map(|id| node.send(&key, id, "hello"))).await;
    for id in &ids {
        assert_eq!(node.end_of(&key, id).await, End::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_go_of_parked_sessions() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", "hello").await;
    sleep(SOON).await;
    node.sessions.drain().await;
    let session = node.sessions.load(&key).await.unwrap();
    assert!(matches!(session.ownership, Ownership::Released { .. }));
    assert_eq!(world.stores.active.nodes().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_crash_ends_parked_sessions_and_the_next_owner_goes_on() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", "hello").await;
    sleep(SOON).await;
    node.crash().await;
    let next = world.start().await;
    let again = next.sessions.admit(&key, message("m2", "hello")).await;
    assert!(again.is_ok(), "{again:?}");
    assert_eq!(next.end_of(&key, "m2").await, End::Completed);
}
