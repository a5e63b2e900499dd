//! Several nodes on one store.

use std::sync::Arc;

use futures_util::StreamExt;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::json;
use steadfast_core::command::CommandBody;
use steadfast_core::event::{Event, Verdict};
use steadfast_core::id::{AgentName, Seq, TurnId};
use steadfast_core::receipt::End;
use steadfast_core::session::{Session, TurnPhase};
use steadfast_protocol::live::{Delta, LiveFrame};
use steadfast_protocol::mail::{self, Mail};
use steadfast_protocol::record::Record;
use steadfast_runtime::Options;
use steadfast_runtime::agent::{Agents, Drive};
use steadfast_runtime::sessions::{Admission, Followed};
use steadfast_store::fault::{FaultLayer, FaultPlan, Odds};
use steadfast_store::mailbox::Lane;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::follow::{slow_text, told};
use crate::world::{Damage, Node, World, calls, command, key, message, script};

/// A node whose connection can be cut.
async fn wired(world: &World) -> (Node, Arc<FaultPlan>, FaultLayer) {
    let plan = Arc::new(FaultPlan::new(SmallRng::seed_from_u64(1), Odds::NONE));
    let layer = FaultLayer::new(&world.stores, Arc::clone(&plan));
    let node = world
        .start_on(world.options.clone(), layer.stores().clone())
        .await;
    (node, plan, layer)
}

/// Names of the nodes that took the session over, in order.
async fn owners(world: &World, session: &str) -> Vec<String> {
    let records = world.records(&key(session)).await;
    let entries = records.iter().flat_map(|record| &record.entries);
    let events = entries.flat_map(|entry| &entry.events);
    events
        .filter_map(|event| match event {
            Event::Activated { node, .. } => Some(node.to_string()),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_at_another_node_is_decided_by_the_owner_and_answered() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    let key = key("s");
    one.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    let begun = Instant::now();
    let sent = other.send(&key, "m2", "hello").await;
    assert!(
        matches!(
            sent,
            Admission::Decided {
                verdict: Verdict::Accepted { .. },
                first: true,
                ..
            }
        ),
        "{sent:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(1));
    let repeated = other.send(&key, "m2", "hello").await;
    assert!(
        matches!(repeated, Admission::Decided { first: false, .. }),
        "{repeated:?}"
    );
    world.ledger.gate.0.add_permits(1);
    assert_eq!(other.end_of(&key, "m2").await, End::Completed);
    assert_eq!(owners(&world, "s").await, ["n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_at_another_node_reaches_the_owner() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    let key = key("s");
    one.send(&key, "m1", &script(json!([{ "hang": 100 }])))
        .await;
    let cancel = command("c1", CommandBody::Cancel { turn: None });
    let cancelled = other.sessions.admit(&key, cancel).await.unwrap();
    assert!(
        matches!(cancelled, Admission::Decided { .. }),
        "{cancelled:?}"
    );
    assert_eq!(other.end_of(&key, "m1").await, End::Cancelled);
    assert_eq!(owners(&world, "s").await, ["n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_follower_at_another_node_sees_frames_and_records() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    let (key, text) = (key("s"), slow_text());
    let (sent, told) = tokio::join!(one.send(&key, "m1", &text), told(&other, "s", Seq(0)));
    drop(sent);
    insta::assert_snapshot!(told, @r#"caught-up(0) activated session_created turn_queued command_settled turn_started step_started [a] [b] [c] [d] [e] [f] [g] [h] [i] [j] ToolInput { index: 0, tool: "look", text: "{}" } model_replied call_started call_settled step_started model_replied turn_ended"#);
}

#[tokio::test(start_paused = true)]
async fn a_late_follower_at_another_node_sees_the_open_step_from_its_start() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    one.send(&key("s"), "m1", &slow_text()).await;
    sleep(Duration::from_millis(4_500)).await;
    let late = told(&other, "s", Seq(6)).await;
    insta::assert_snapshot!(late, @r#"caught-up(6) [a] [b] [c] [d] [e] [f] [g] [h] [i] [j] ToolInput { index: 0, tool: "look", text: "{}" } model_replied call_started call_settled step_started model_replied turn_ended"#);
}

#[tokio::test(start_paused = true)]
async fn a_late_follower_sees_the_open_step_also_where_the_session_was_asked_about() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    one.send(&key("s"), "m1", &slow_text()).await;
    sleep(Duration::from_millis(4_500)).await;
    other.send(&key("s"), "m2", "hello").await;
    let late = told(&other, "s", Seq(8)).await;
    insta::assert_snapshot!(late, @r#"caught-up(8) [a] [b] [c] [d] [e] [f] [g] [h] [i] [j] ToolInput { index: 0, tool: "look", text: "{}" } model_replied call_started call_settled step_started model_replied turn_ended turn_started step_started"#);
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_shown_no_piece_of_a_step_whose_start_nobody_keeps() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    let key = key("s");
    one.send(&key, "m1", "hello").await;
    one.end_of(&key, "m1").await;
    let records = world.records(&key).await;
    let holds_reply = |record: &&Record| {
        let mut events = record.entries.iter().flat_map(|entry| &entry.events);
        events.any(|event| matches!(event, Event::ModelReplied { .. }))
    };
    let replied = records.iter().find(holds_reply).unwrap();
    // The follower's copy of the log ends within the step, and its owner is beyond it.
    world.log.damage(&key, replied.first_seq, Damage::Gone);
    let mut follower = other.sessions.follow(&key, Seq(0), true);
    while !matches!(follower.next().await, Some(Ok(Followed::CaughtUp { .. }))) {}
    let piece = LiveFrame {
        epoch: replied.epoch,
        turn: TurnId(Seq(3)),
        step: 1,
        attempt: 1,
        n: 1,
        delta: Delta::Text {
            part: 0,
            text: "there".to_owned(),
        },
    };
    world.stores.live.publish(&key, Arc::new(piece));
    let shown = timeout(Duration::from_millis(500), follower.next()).await;
    assert!(shown.is_err(), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_was_told_looks_again_where_a_copy_of_the_log_lags() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    let key = key("s");
    one.send(&key, "m1", "hello").await;
    one.end_of(&key, "m1").await;
    let seq = world.records(&key).await.last().unwrap().last_seq();
    let mut follower = other.sessions.follow(&key, seq, true);
    let caught_up = follower.next().await;
    assert!(
        matches!(caught_up, Some(Ok(Followed::CaughtUp { .. }))),
        "{caught_up:?}"
    );
    // The Record by which the owner lets go stands in the log, and is not shown yet.
    world.log.damage(&key, seq.next(), Damage::Gone);
    let catch_up = async {
        let before = world.stores.log.tail(&key).await.unwrap().tail;
        while world.stores.log.tail(&key).await.unwrap().tail == before {
            sleep(Duration::from_secs(1)).await;
        }
        world.log.heal();
    };
    let read = timeout(Duration::from_secs(100), follower.next());
    let ((), read) = tokio::join!(catch_up, read);
    let Ok(Some(Ok(Followed::Record { from, .. }))) = read else {
        panic!("not given: {read:?}");
    };
    assert_eq!(from, seq.next());
}

#[tokio::test(start_paused = true)]
async fn the_sessions_of_a_dead_node_go_on_elsewhere_within_seconds() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    sleep(Duration::from_secs(5)).await;
    let key = key("s");
    one.send(&key, "m1", &calls(&["look", "hang"])).await;
    world.ledger.hanging.notified().await;
    one.crash().await;
    let end = timeout(Duration::from_secs(8), other.end_of(&key, "m1")).await;
    assert_eq!(end, Ok(End::Completed));
    assert_eq!(world.ledger.lines(), ["look", "hang"]);
    assert_eq!(owners(&world, "s").await, ["n1", "n2"]);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(world.stores.active.nodes().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_owner_showed_is_withdrawn() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    sleep(Duration::from_secs(5)).await;
    let text = script(json!([{ "text": "abcd", "chunks": 4, "delay": 1.0 }]));
    let dies = async {
        one.send(&key("s"), "m1", &text).await;
        sleep(Duration::from_millis(2_500)).await;
        one.crash().await;
    };
    let (told, ()) = tokio::join!(told(&other, "s", Seq(0)), dies);
    insta::assert_snapshot!(told, @"caught-up(0) activated session_created turn_queued command_settled turn_started step_started [a] [b] [c] Withdrawn [a] activated [b] [c] [d] model_replied turn_ended");
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_session_of_a_dead_node_wakes_it() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    let key = key("s");
    one.send(&key, "m1", "hello").await;
    assert_eq!(one.end_of(&key, "m1").await, End::Completed);
    one.crash().await;
    sleep(Duration::from_secs(5)).await;
    let sent = other.sessions.admit(&key, message("m2", "hello")).await;
    assert!(matches!(sent, Ok(Admission::Decided { .. })), "{sent:?}");
    assert_eq!(other.end_of(&key, "m2").await, End::Completed);
    assert_eq!(owners(&world, "s").await, ["n1", "n2"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_renewals_are_lost_is_left_alone_while_its_door_answers() {
    let world = World::shared();
    let options = Options {
        // It never renews within this test.
        lease_every: Duration::from_secs(100_000),
        ..world.options.clone()
    };
    let one = world.start_on(options, world.stores.clone()).await;
    let other = world.start().await;
    let key = key("s");
    one.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    sleep(Duration::from_secs(60)).await;
    other.send(&key, "m2", "hello").await;
    world.ledger.gate.0.add_permits(1);
    assert_eq!(other.end_of(&key, "m1").await, End::Completed);
    assert_eq!(owners(&world, "s").await, ["n1"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_taken_for_dead_while_no_lease_can_be_renewed() {
    let world = World::shared();
    let (one, plan, _layer) = wired(&world).await;
    let (other, other_plan, _other_layer) = wired(&world).await;
    sleep(Duration::from_secs(5)).await;
    let key = key("s");
    one.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    // An election: nobody reaches the store.
    plan.cut_for(Duration::from_secs(8));
    other_plan.cut_for(Duration::from_secs(8));
    sleep(Duration::from_secs(20)).await;
    world.ledger.gate.0.add_permits(1);
    assert_eq!(other.end_of(&key, "m1").await, End::Completed);
    assert_eq!(owners(&world, "s").await, ["n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_owner_is_replaced_and_yields_when_it_is_back() {
    let world = World::shared();
    let (one, plan, _layer) = wired(&world).await;
    let other = world.start().await;
    sleep(Duration::from_secs(5)).await;
    let key = key("s");
    one.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    plan.block();
    // The wake-up may be delivered to the frozen node first, and comes again after its silence.
    let end = timeout(Duration::from_secs(25), other.end_of(&key, "m1")).await;
    assert_eq!(end, Ok(End::Completed));
    plan.open();
    world.ledger.gate.0.add_permits(1);
    one.until_gone().await;
    one.send(&key, "m2", "hello").await;
    assert_eq!(one.end_of(&key, "m2").await, End::Completed);
    assert_eq!(owners(&world, "s").await, ["n1", "n2"]);
    assert_eq!(world.ledger.lines(), ["hang", "hang ends"]);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_owner_that_has_nothing_to_write_learns_of_it_when_it_is_back() {
    let world = World::shared();
    let (one, plan, _layer) = wired(&world).await;
    let other = world.start().await;
    sleep(Duration::from_secs(5)).await;
    let key = key("s");
    one.send(&key, "m1", &script(json!([{ "hang": 600 }])))
        .await;
    plan.block();
    sleep(Duration::from_secs(25)).await;
    assert_eq!(owners(&world, "s").await, ["n1", "n2"]);
    other.send(&key, "m2", "hello").await;
    plan.open();
    // At once for who asks for something that it does not know.
    let newest = one.sessions.load_newest(&key).await.unwrap();
    assert_eq!(newest.queue.len(), 1);
    let gone = timeout(Duration::from_secs(10), one.until_gone()).await;
    assert_eq!(gone, Ok(()));
    let state = one.sessions.load(&key).await.unwrap();
    assert_eq!(state.queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_clock_is_an_hour_late_waits_no_longer_than_others() {
    let world = World::shared();
    let key = key("s");
    let one = world.start().await;
    one.send(&key, "m1", "hello").await;
    one.end_of(&key, "m1").await;
    one.until_gone().await;
    let late = world.start_late().await;
    let fails_once = script(json!([{ "status": 529, "times": 1 }, { "text": "done" }]));
    late.send(&key, "m2", &fails_once).await;
    let end = timeout(Duration::from_secs(30), late.end_of(&key, "m2")).await;
    assert_eq!(end, Ok(End::Completed));
    assert_eq!(owners(&world, "s").await, ["n1", "n2"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_outlives_the_drain_of_an_owner_whose_clock_is_an_hour_ahead() {
    let world = World::shared();
    let key = key("s");
    let ahead = world.start_ahead().await;
    let fails_once = script(json!([{ "status": 529, "times": 1 }, { "text": "done" }]));
    ahead.send(&key, "m1", &fails_once).await;
    let waits = |session: &Session| {
        let phase = session.turn.as_ref().map(|turn| turn.phase);
        matches!(phase, Some(TurnPhase::Backoff { .. })).then_some(())
    };
    ahead.until(&key, waits).await;
    let other = world.start().await;
    let drained = ahead.handle.shutdown(std::future::pending()).await;
    assert_eq!(drained.left, 0);
    let end = timeout(Duration::from_secs(30), other.end_of(&key, "m1")).await;
    assert_eq!(end, Ok(End::Completed));
    assert_eq!(owners(&world, "s").await, ["n1", "n2"]);
}

#[tokio::test(start_paused = true)]
async fn a_living_owner_that_was_taken_for_dead_is_found_again_when_it_dies() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    sleep(Duration::from_secs(5)).await;
    let key = key("s");
    one.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    // Somebody else thought so, and forgot the entry by which the session is found.
    let index = &world.stores.active;
    let node = one.sessions.node().clone();
    let entry = index.entries(&node, None, 1).await.unwrap().remove(0);
    let dead_owner = Some(node.clone());
    let letter = mail::encode(&Mail::WakeUp { dead_owner }).unwrap();
    let mailbox = &world.stores.mailbox;
    mailbox
        .send(&key, Lane::Control, "w", letter.into())
        .await
        .unwrap();
    index.remove(&node, &key, entry.version).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(index.entries(&node, None, 9).await.unwrap().len(), 1);
    one.crash().await;
    assert_eq!(other.end_of(&key, "m1").await, End::Completed);
    assert_eq!(owners(&world, "s").await, ["n1", "n2"]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_moves_running_turns_to_another_node() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    let steps = json!([{ "tool": "hang", "input": {} }, { "hang": 3, "text": "done" }]);
    for (session, text) in [
        ("model", script(json!([{ "hang": 9, "text": "x" }]))),
        ("tool", script(steps)),
    ] {
        one.send(&key(session), "m1", &text).await;
    }
    world.ledger.hanging.notified().await;
    let drained = async {
        let never = std::future::pending();
        one.handle.shutdown(never).await
    };
    let ends = async {
        let model = other.end_of(&key("model"), "m1").await;
        // The node waits for the call, and the call's session for the node.
        world.ledger.gate.0.add_permits(1);
        (model, other.end_of(&key("tool"), "m1").await)
    };
    let (drained, ends) = tokio::join!(drained, ends);
    assert_eq!(ends, (End::Completed, End::Completed));
    assert_eq!(
        (drained.left, drained.repeated, drained.in_doubt),
        (0, 0, 0)
    );
    assert_eq!(owners(&world, "model").await, ["n1", "n2"]);
    assert_eq!(owners(&world, "tool").await, ["n1", "n2"]);
    assert_eq!(world.ledger.lines(), ["hang", "hang ends"]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_tells_what_it_cut_off() {
    let world = World::shared();
    let (one, other) = (world.start().await, world.start().await);
    let key = key("s");
    one.send(&key, "m1", &calls(&["hang"])).await;
    world.ledger.hanging.notified().await;
    let drained = one.handle.shutdown(std::future::pending()).await;
    assert_eq!(
        (drained.left, drained.repeated, drained.in_doubt),
        (0, 0, 1)
    );
    assert_eq!(other.end_of(&key, "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["hang"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_drive_hands_over_between_steps() {
    let world = World::shared();
    let options = Options {
        drives: false,
        handover_after: Duration::from_secs(2),
        ..world.options.clone()
    };
    let one = world.start_on(options, world.stores.clone()).await;
    let other = world.start().await;
    let key = key("s");
    let steps = json!([
        { "tool": "hang", "input": {} },
        { "hang": 1, "tool": "charge", "input": {} },
        { "text": "done" }
    ]);
    one.send(&key, "m1", &script(steps)).await;
    world.ledger.hanging.notified().await;
    // The call runs for longer than the node keeps the session, and is not cut off.
    sleep(Duration::from_secs(90)).await;
    assert_eq!(owners(&world, "s").await, ["n1"]);
    world.ledger.gate.0.add_permits(1);
    assert_eq!(other.end_of(&key, "m1").await, End::Completed);
    assert_eq!(owners(&world, "s").await, ["n1", "n2"]);
    assert_eq!(world.ledger.lines(), ["hang", "hang ends", "charge"]);
}

fn driven(agents: &Agents, drive: Drive) -> Agents {
    let name = AgentName::new("helper").unwrap();
    let mut agent = (*agents[&name]).clone();
    agent.drive = drive;
    Arc::new([(name, Arc::new(agent))].into())
}

#[tokio::test(start_paused = true)]
async fn an_agent_for_the_queue_runs_where_sessions_are_driven() {
    for drive in [Drive::Driver, Drive::Queue] {
        let mut world = World::shared();
        world.agents = driven(&world.agents, drive);
        let options = Options {
            drives: false,
            ..world.options.clone()
        };
        let one = world.start_on(options, world.stores.clone()).await;
        let _other = world.start().await;
        let key = key("s");
        let sent = one.send(&key, "m1", "hello").await;
        assert!(matches!(sent, Admission::Decided { .. }), "{sent:?}");
        assert_eq!(one.end_of(&key, "m1").await, End::Completed);
        assert_eq!(owners(&world, "s").await, ["n2"], "{drive:?}");
    }
}
