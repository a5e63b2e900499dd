//! Pools of tool workers: who gets the next place, and what a tool that blocks or hangs costs.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use steadfast_core::command::CommandBody;
use steadfast_core::event::Settlement;
use steadfast_core::receipt::End;
use steadfast_runtime::PoolOptions;
use steadfast_tools::definition::ToolDefinition;
use steadfast_tools::function::{ToolFailure, blocking_function};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::sleep;

use crate::world::{World, calls, command, key, tool};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A tool that says which session it runs for and takes a second.
fn slow(name: &str, world: &Arc<crate::world::Ledger>) -> ToolDefinition {
    let ledger = Arc::clone(world);
    tool(name, move |_, call| {
        ledger.write(call.session().session.as_str());
        async move {
            sleep(Duration::from_secs(1)).await;
            Ok("slow".to_owned())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_session_with_many_calls_does_not_starve_the_others() {
    let world =
        World::with_tools(|builder, ledger| builder.with(slow("slow", ledger).concurrency_max(1)));
    let node = world.start().await;
    node.send(&key("busy"), "m1", &calls(&["slow"; 6])).await;
    sleep(Duration::from_millis(100)).await;
    for session in ["a", "b"] {
        node.send(&key(session), "m1", &calls(&["slow", "slow"]))
            .await;
    }
    for session in ["busy", "a", "b"] {
        assert_eq!(node.end_of(&key(session), "m1").await, End::Completed);
    }
    assert_eq!(
        world.ledger.lines(),
        [
            "busy", "busy", "a", "b", "busy", "a", "b", "busy", "busy", "busy"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_pool_takes_tools_in_turn() {
    let mut world = World::with_tools(|builder, ledger| {
        builder.with(slow("one", ledger)).with(slow("two", ledger))
    });
    world.options.pools.functions_max = 1;
    let node = world.start().await;
    node.send(&key("ones"), "m1", &calls(&["one"; 4])).await;
    sleep(Duration::from_millis(100)).await;
    node.send(&key("twos"), "m1", &calls(&["two", "two"])).await;
    for session in ["ones", "twos"] {
        assert_eq!(node.end_of(&key(session), "m1").await, End::Completed);
    }
    let expected = ["ones", "ones", "twos", "ones", "twos", "ones"];
    assert_eq!(world.ledger.lines(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_leaves_the_line() {
    let world =
        World::with_tools(|builder, ledger| builder.with(slow("slow", ledger).concurrency_max(1)));
    let node = world.start().await;
    for session in ["first", "gone", "last"] {
        node.send(&key(session), "m1", &calls(&["slow"])).await;
        sleep(Duration::from_millis(100)).await;
    }
    let cancel = command("c1", CommandBody::Cancel { turn: None });
    node.sessions.admit(&key("gone"), cancel).await.unwrap();
    assert_eq!(node.end_of(&key("gone"), "m1").await, End::Cancelled);
    assert_eq!(node.end_of(&key("last"), "m1").await, End::Completed);
    assert_eq!(world.settlements("gone").await, [Settlement::Cancelled]);
    assert_eq!(world.ledger.lines(), ["first", "last"]);
}

/// Blocking calls that wait to be let go, one message each.
struct Gate {
    open: Sender<()>,
    begun: Arc<Semaphore>,
}

fn gated(name: &str) -> (ToolDefinition, Gate) {
    let (open, closed): (Sender<()>, Receiver<()>) = mpsc::channel();
    let begun = Arc::new(Semaphore::new(0));
    let gate = Gate {
        open,
        begun: Arc::clone(&begun),
    };
    let closed = std::sync::Mutex::new(closed);
    let tool = blocking_function(name, "Blocks", move |_: Nothing, _| {
        begun.add_permits(1);
        closed.lock().unwrap().recv().unwrap();
        Ok::<_, ToolFailure>("let go".to_owned())
    });
    (tool, gate)
}

#[tokio::test]
async fn a_blocking_tool_runs_beside_the_runtime() {
    let (tool, gate) = gated("block");
    let world = World::with_tools(|builder, _| builder.with(tool));
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["block", "look"])).await;
    gate.begun.acquire().await.unwrap().forget();
    // The only thread of this runtime is free: another session's turn runs to its end.
    node.send(&key("other"), "m1", &calls(&["look"])).await;
    assert_eq!(node.end_of(&key("other"), "m1").await, End::Completed);
    gate.open.send(()).unwrap();
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(
        world.settlements("s").await,
        [Settlement::Done, Settlement::Done]
    );
}

#[tokio::test]
async fn a_blocking_tool_that_was_given_up_keeps_its_place() {
    let (tool, gate) = gated("block");
    let tool = tool.concurrency_max(1).deadline(Duration::from_millis(50));
    let mut world = World::with_tools(|builder, _| builder.with(tool));
    world.options.cancel_grace = Duration::from_millis(50);
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["block"])).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::InDoubt]);
    gate.begun.acquire().await.unwrap().forget();
    // Its thread still runs, so the next call waits.
    node.send(&key("next"), "m1", &calls(&["block"])).await;
    let begins = tokio::time::timeout(Duration::from_millis(300), gate.begun.acquire());
    assert!(begins.await.is_err(), "it began beside the one given up");
    gate.open.send(()).unwrap();
    gate.begun.acquire().await.unwrap().forget();
    gate.open.send(()).unwrap();
    assert_eq!(node.end_of(&key("next"), "m1").await, End::Completed);
}

#[tokio::test]
async fn a_blocking_tool_that_panics_costs_its_own_call() {
    let world = World::with_tools(|builder, _| {
        let broken = blocking_function("broken", "Panics", |_: Nothing, _| -> Result<String, _> {
            panic!("as told")
        });
        builder.with(broken.concurrency_max(1))
    });
    let node = world.start().await;
    for message in ["m1", "m2"] {
        node.send(&key("s"), message, &calls(&["broken"])).await;
        assert_eq!(node.end_of(&key("s"), message).await, End::Completed);
    }
    assert_eq!(
        world.settlements("s").await,
        [Settlement::InDoubt, Settlement::InDoubt]
    );
}

/// A tool that breaks its promise: asynchronous in name, it blocks the thread that runs it.
fn rude() -> (ToolDefinition, Gate) {
    let (open, closed): (Sender<()>, Receiver<()>) = mpsc::channel();
    let begun = Arc::new(Semaphore::new(0));
    let gate = Gate {
        open,
        begun: Arc::clone(&begun),
    };
    let closed = Arc::new(Mutex::new(closed));
    let rude = tool("rude", move |_, _| {
        let (begun, closed) = (Arc::clone(&begun), Arc::clone(&closed));
        async move {
            let closed = closed.lock().await;
            begun.add_permits(1);
            closed.recv().unwrap();
            Ok("at last".to_owned())
        }
    });
    (rude, gate)
}

#[tokio::test]
async fn a_function_that_blocks_its_thread_stops_other_functions_and_nothing_else() {
    let (rude, gate) = rude();
    let rude = rude.deadline(Duration::from_secs(2));
    let late = tool("late", |_, _| async { Ok("never".to_owned()) });
    let late = late.deadline(Duration::from_millis(50));
    let mut world = World::with_tools(|builder, _| builder.with(rude).with(late));
    world.options.cancel_grace = Duration::from_millis(50);
    world.options.pools = PoolOptions {
        function_threads: 1,
        ..PoolOptions::default()
    };
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["rude"])).await;
    gate.begun.acquire().await.unwrap().forget();
    // Sessions, models and stores go on. A function that found no thread did nothing, surely.
    node.send(&key("other"), "m1", &calls(&["late"])).await;
    assert_eq!(node.end_of(&key("other"), "m1").await, End::Completed);
    assert_eq!(world.settlements("other").await, [Settlement::Unreachable]);
    // The one that blocks is given up at its deadline though nothing can stop it.
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::InDoubt]);
    gate.open.send(()).unwrap();
    node.send(&key("s"), "m2", &calls(&["look"])).await;
    assert_eq!(node.end_of(&key("s"), "m2").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["look"]);
}
