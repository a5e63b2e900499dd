//! A process that ends without a word, and the next one on the same store.

use steadfast_core::event::Event;
use steadfast_core::receipt::End;
use steadfast_store::log::{ReadFrom, Tail};
use tokio::time::{Duration, timeout};

use crate::world::{Fault, World, calls, key, message};

const STORY: &[&str] = &["look", "charge", "look"];

/// Runs the turn until the n-th append, then ends the process. `false`: there is no n-th append.
async fn run_until(world: &World, n: u64, fault: Fault) -> bool {
    world.log.fail(n, fault);
    let node = world.start().await;
    let key = key("s");
    let hung = async {
        // The client may be waiting for its receipt when the process ends.
        tokio::select! { biased;
            () = world.log.hung.notified() => true,
            _ = async {
                let _ = node.sessions.admit(&key, message("m1", &calls(STORY))).await;
                std::future::pending::<()>().await;
            } => false,
        }
    };
    let hung = timeout(Duration::from_secs(2), hung).await.unwrap_or(false);
    node.crash().await;
    hung
}

async fn check(n: u64, fault: Fault) -> bool {
    let world = World::new();
    if !run_until(&world, n, fault).await {
        return false;
    }
    let key = key("s");
    let next = world.start().await;
    next.send(&key, "m1", &calls(STORY)).await;
    assert_eq!(
        next.end_of(&key, "m1").await,
        End::Completed,
        "append {n}, {fault:?}"
    );
    assert!(world.ledger.count("charge") <= 1, "append {n}, {fault:?}");
    let queued = |event: &Event| matches!(event, Event::TurnQueued { .. });
    let ended = |event: &Event| matches!(event, Event::TurnEnded { .. });
    let settled = |event: &Event| matches!(event, Event::CallSettled { .. });
    assert_eq!(
        world.count_events(&key, queued).await,
        1,
        "append {n}, {fault:?}"
    );
    assert_eq!(
        world.count_events(&key, ended).await,
        1,
        "append {n}, {fault:?}"
    );
    assert_eq!(
        world.count_events(&key, settled).await,
        3,
        "append {n}, {fault:?}"
    );
    true
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_append_loses_and_repeats_nothing() {
    let mut appends = 0;
    while check(appends + 1, Fault::HangsBefore).await {
        appends += 1;
    }
    assert!(appends >= 5, "{appends}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_append_loses_and_repeats_nothing() {
    let mut appends = 0;
    while check(appends + 1, Fault::HangsAfter).await {
        appends += 1;
    }
    assert!(appends >= 5, "{appends}");
}

#[tokio::test(start_paused = true)]
async fn the_next_process_goes_on_without_being_asked() {
    let world = World::new();
    assert!(run_until(&world, 3, Fault::HangsBefore).await);
    let next = world.start().await;
    assert_eq!(next.end_of(&key("s"), "m1").await, End::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_runs_twice_is_in_doubt_after_a_crash() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    node.crash().await;
    let next = world.start().await;
    assert_eq!(next.end_of(&key, "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["hang"]);
    insta::assert_snapshot!(world.story(&key).await, @"activated session_created turn_queued command_settled turn_started step_started | model_replied call_started | activated turn_crashed call_settled step_started | model_replied turn_ended");
}

#[tokio::test(start_paused = true)]
async fn a_first_append_that_never_came_leaves_nothing() {
    let world = World::new();
    assert!(run_until(&world, 1, Fault::HangsBefore).await);
    let index = &world.stores.active;
    assert_eq!(index.nodes().await.unwrap().len(), 1);
    let next = world.start().await;
    next.until_gone().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(index.nodes().await.unwrap(), []);
    let from = ReadFrom::After(Tail::EMPTY);
    assert_eq!(world.stores.log.read(&key("s"), from, 1).await.unwrap(), []);
}
