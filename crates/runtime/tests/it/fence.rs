//! Appends that fail, and owners that lose their session.

use steadfast_core::event::Event;
use steadfast_core::receipt::End;
use steadfast_runtime::sessions::AdmitError;
use tokio::time::{Duration, sleep};

use crate::world::{Fault, World, calls, key, message};

async fn check_repeated(fault: Fault) {
    for n in 1..=3 {
        let world = World::new();
        let node = world.start().await;
        let key = key("s");
        world.log.fail(n, fault);
        node.send(&key, "m1", &calls(&["charge"])).await;
        assert_eq!(node.end_of(&key, "m1").await, End::Completed, "append {n}");
        assert_eq!(world.ledger.lines(), ["charge"], "append {n}");
        let activated = |event: &Event| matches!(event, Event::Activated { .. });
        assert_eq!(world.count_events(&key, activated).await, 1, "append {n}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_that_lands_without_an_answer_is_recognised() {
    check_repeated(Fault::LostAcknowledgement).await;
}

#[tokio::test(start_paused = true)]
async fn an_append_that_is_lost_is_sent_again() {
    check_repeated(Fault::LostRequest).await;
    check_repeated(Fault::Unavailable).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_replaced_stops_and_yields() {
    let world = World::new();
    let old = world.start().await;
    let key = key("s");
    old.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    // A second process takes the first for dead, as on this store it should be.
    let new = world.start().await;
    assert_eq!(new.end_of(&key, "m1").await, End::Completed);
    assert_eq!(old.sessions.in_memory(), 1);
    world.ledger.gate.0.add_permits(1);
    old.until_gone().await;
    let activated = |event: &Event| matches!(event, Event::Activated { .. });
    assert_eq!(world.count_events(&key, activated).await, 2);
    assert_eq!(world.ledger.lines(), ["hang", "hang ends"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_long_ends_the_owner_and_not_the_turn() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    world.log.set_unavailable(true);
    world.ledger.gate.0.add_permits(1);
    let asked = node.sessions.admit(&key, message("m2", "hello")).await;
    assert!(
        matches!(asked, Err(AdmitError::OutcomeUnknown(_))),
        "{asked:?}"
    );
    sleep(Duration::from_secs(90)).await;
    let asked = node.sessions.admit(&key, message("m2", "hello")).await;
    assert!(
        matches!(
            asked,
            Err(AdmitError::Unavailable(_) | AdmitError::OutcomeUnknown(_))
        ),
        "{asked:?}"
    );
    world.log.set_unavailable(false);
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    node.send(&key, "m2", "hello").await;
    assert_eq!(node.end_of(&key, "m2").await, End::Completed);
    // Its result was lost with the owner that could not write it.
    assert_eq!(world.ledger.lines(), ["hang", "hang ends"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_panics_costs_its_session_a_rest_only() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    world.log.fail(3, Fault::Panics);
    node.send(&key, "m1", &calls(&["charge"])).await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    assert_eq!(world.ledger.count("charge"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_always_panics_is_not_opened_in_a_hurry() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    let before = world.log.appends();
    for n in 1..=1_000 {
        world.log.fail(n, Fault::Panics);
    }
    world.ledger.gate.0.add_permits(1);
    sleep(Duration::from_secs(600)).await;
    let tries = world.log.appends() - before;
    assert!((5..=20).contains(&tries), "{tries} tries in ten minutes");
}
