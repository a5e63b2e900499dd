//! Tool calls: pools, deadlines, panics, cancels.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steadfast_core::command::CommandBody;
use steadfast_core::content::{Stored, ToolOutput};
use steadfast_core::event::{Event, Settlement};
use steadfast_core::id::ApprovalId;
use steadfast_core::receipt::End;
use steadfast_core::session::Session;
use steadfast_tools::spec::Approval;
use tokio::time::{Instant, sleep};

use crate::world::{World, calls, command, key, script, tool};

fn slow_world(exclusive: bool, concurrency_max: u32) -> World {
    World::with_tools(|builder, ledger| {
        let ledger = Arc::clone(ledger);
        let slow = tool("slow", move |_, _| {
            let ledger = Arc::clone(&ledger);
            async move {
                ledger.write("begin");
                sleep(Duration::from_secs(1)).await;
                ledger.write("end");
                Ok("slow".to_owned())
            }
        });
        let slow = slow.concurrency_max(concurrency_max);
        builder.with(if exclusive { slow.exclusive() } else { slow })
    })
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_step_run_at_the_same_time() {
    let world = slow_world(false, 64);
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["slow", "slow"])).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["begin", "begin", "end", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_one_runs_one_call_after_the_other_over_all_sessions() {
    let world = slow_world(false, 1);
    let node = world.start().await;
    for session in ["a", "b"] {
        node.send(&key(session), "m1", &calls(&["slow", "slow"]))
            .await;
    }
    for session in ["a", "b"] {
        assert_eq!(node.end_of(&key(session), "m1").await, End::Completed);
    }
    assert_eq!(world.ledger.lines(), ["begin", "end"].repeat(4));
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_call_runs_alone_in_its_session() {
    let world = slow_world(true, 64);
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["slow", "slow"])).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["begin", "end", "begin", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_costs_its_own_call() {
    let world = World::with_tools(|builder, _| {
        builder.with(tool("broken", |_, _| async { panic!("as told") }))
    });
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["broken", "look"]))
        .await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    let mut settled = world.settlements("s").await;
    settled.sort_unstable();
    assert_eq!(settled, [Settlement::Done, Settlement::InDoubt]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_eats_its_deadline_costs_its_own_call() {
    let world = World::with_tools(|builder, _| {
        let stuck = tool("stuck", |_, _| std::future::pending());
        builder.with(stuck.deadline(Duration::from_secs(10)))
    });
    let node = world.start().await;
    let begun = Instant::now();
    node.send(&key("s"), "m1", &calls(&["stuck"])).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::InDoubt]);
    let took = begun.elapsed().as_secs();
    assert!((10..=16).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_the_tool_and_ends_the_turn() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    let cancel = command("c1", CommandBody::Cancel { turn: None });
    node.sessions.admit(&key, cancel).await.unwrap();
    assert_eq!(node.end_of(&key, "m1").await, End::Cancelled);
    sleep(Duration::from_secs(6)).await;
    world.ledger.gate.0.add_permits(1);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.ledger.lines(), ["hang"]);
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_cancelled_tool_is_kept() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    let cancel = command("c1", CommandBody::Cancel { turn: None });
    node.sessions.admit(&key, cancel).await.unwrap();
    world.ledger.gate.0.add_permits(1);
    sleep(Duration::from_secs(1)).await;
    let resolved = |event: &Event| matches!(event, Event::CallResolved { .. });
    assert_eq!(world.count_events(&key, resolved).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_the_model() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &script(json!([{ "hang": 3_000 }])))
        .await;
    sleep(Duration::from_secs(1)).await;
    let cancel = command("c1", CommandBody::Cancel { turn: None });
    node.sessions.admit(&key, cancel).await.unwrap();
    assert_eq!(node.end_of(&key, "m1").await, End::Cancelled);
    let begun = Instant::now();
    node.until_gone().await;
    assert!(
        begun.elapsed() < Duration::from_secs(65),
        "{:?}",
        begun.elapsed()
    );
}

fn approval_world() -> World {
    World::with_tools(|builder, ledger| {
        let ledger = Arc::clone(ledger);
        let guarded = tool("guarded", move |_, _| {
            ledger.write("guarded");
            async { Ok("done".to_owned()) }
        });
        let guarded = guarded.approval(Approval::UserApproval);
        builder.with(guarded.approval_expires(Duration::from_secs(3_600)))
    })
}

fn waiting_approval(session: &Session) -> Option<ApprovalId> {
    let call = session
        .turn
        .as_ref()?
        .calls
        .iter()
        .find(|call| call.waits_for_people())?;
    Some(ApprovalId(call.id))
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_runs_though_its_session_was_let_go() {
    let world = approval_world();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["guarded"])).await;
    let approval = node.until(&key, waiting_approval).await;
    node.until_gone().await;
    assert_eq!(world.ledger.lines(), [""; 0]);
    let yes = CommandBody::DecideApproval {
        approval,
        approved: true,
        reason: None,
        triage: None,
    };
    node.sessions.admit(&key, command("a1", yes)).await.unwrap();
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["guarded"]);
}

#[tokio::test(start_paused = true)]
async fn an_approval_expires_though_its_session_was_let_go() {
    let world = approval_world();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["guarded"])).await;
    node.until(&key, waiting_approval).await;
    node.until_gone().await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::Expired]);
    assert_eq!(world.ledger.lines(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_large_result_stands_beside_the_log_and_the_model_sees_its_ends() {
    let world = World::with_tools(|builder, _| {
        builder.with(tool("large", |_, _| async { Ok("x".repeat(100_000)) }))
    });
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["large"])).await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    let records = world.records(&key).await;
    let events = records
        .iter()
        .flat_map(|record| &record.entries)
        .flat_map(|entry| &entry.events);
    let output = events.into_iter().find_map(|event| match event {
        Event::CallSettled { output, .. } => Some(output.clone()),
        _ => None,
    });
    let output = output.unwrap();
    assert!(matches!(output.output, Stored::Blob(blob) if blob.size_bytes > 100_000));
    let Some(ToolOutput::Text { text }) = output.model_view.as_deref() else {
        panic!("{output:?}")
    };
    assert!(
        text.len() < 17_000 && text.contains("83616 of 100000 bytes left out"),
        "{text}"
    );
}
