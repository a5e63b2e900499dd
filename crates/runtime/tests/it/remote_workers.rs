//! Nodes with other roles than all: workers in bounded pools, progress over nodes, nodes that own
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use steadfast_core::event::{Event, Settlement};
use steadfast_core::id::{NodeId, Seq};
use steadfast_core::receipt::End;
use steadfast_protocol::live::Delta;
use steadfast_runtime::agent::{Agent, Drive};
use steadfast_runtime::sessions::Followed;
use steadfast_runtime::{JobFigures, Options, PoolOptions};
use tokio::time::{Instant, sleep, timeout};

use crate::remote::{Worker, for_workers, remote_world};
use crate::world::{Ledger, World, calls, key, message, tool};

const SECOND: Duration = Duration::from_secs(1);

/// A world with a remote tool that works for ten minutes and says every 20 s how far it is.
fn telling_world() -> World {
    let mut world = World::with_tools(|builder, _| {
        let tell = tool("tell", |_, call| async move {
            for part in 0..30 {
                sleep(10 * SECOND).await;
                call.progress(json!({ "part": part }));
                sleep(10 * SECOND).await;
            }
            Ok("told".to_owned())
        });
        builder.with(tell.remotely().deadline(3_600 * SECOND))
    });
    for_workers(&mut world);
    world
}

/// A world with a remote tool of which one call takes ten seconds.
fn slow_world(concurrency_max: u32) -> World {
    let mut world = World::with_tools(move |builder, ledger| {
        let ledger = Arc::clone(ledger);
        let slow = tool("slow", move |_, _| work(Arc::clone(&ledger)));
        let slow = slow.remotely().deadline(3_600 * SECOND);
        let quick = tool("quick", |_, _| async { Ok("quick".to_owned()) });
        builder
            .with(slow.concurrency_max(concurrency_max))
            .with(quick.remotely())
    });
    for_workers(&mut world);
    world
}

async fn work(ledger: Arc<Ledger>) -> Result<String, steadfast_tools::function::ToolFailure> {
    ledger.write("begins");
    sleep(10 * SECOND).await;
    ledger.write("ends");
    Ok("slow".to_owned())
}

/// Most calls that the ledger saw at the same time.
fn at_once(world: &World) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for line in world.ledger.lines() {
        now = match line.as_str() {
            "begins" => now + 1,
            _ => now - 1,
        };
        most = most.max(now);
    }
    most
}

#[tokio::test(start_paused = true)]
async fn progress_of_a_worker_is_shown_as_that_of_a_local_call_and_keeps_the_session() {
    let world = telling_world();
    let (node, worker) = (world.start().await, Worker::of(&world, "w1").await);
    let mut follower = node.sessions.follow(&key("s"), Seq(0), true);
    node.send(&key("s"), "m1", &calls(&["tell"])).await;
    let mut shown = Vec::new();
    let heard = async {
        loop {
            match follower.next().await.unwrap().unwrap() {
                Followed::Live(frame) => {
                    if let Delta::ToolProgress { output, .. } = &frame.delta {
                        shown.push(output.clone());
                    }
                }
                Followed::Record { record, .. } => {
                    let mut events = record.entries.iter().flat_map(|entry| &entry.events);
                    if events.any(|event| matches!(event, Event::CallSettled { .. })) {
                        return;
                    }
                }
                Followed::CaughtUp { .. } => {}
            }
        }
    };
    timeout(700 * SECOND, heard).await.unwrap();
    let parts: Vec<Value> = (0..30).map(|part| json!({ "part": part })).collect();
    assert_eq!(shown, parts);
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    let activations = |event: &Event| matches!(event, Event::Activated { .. });
    assert_eq!(world.count_events(&key("s"), activations).await, 1);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_takes_no_more_jobs_of_a_tool_than_run_and_other_nodes_have_the_rest() {
    let world = slow_world(1);
    let node = world.start().await;
    let workers = [
        Worker::of(&world, "w1").await,
        Worker::of(&world, "w2").await,
    ];
    let start = Instant::now();
    for session in ["a", "b", "c", "d"] {
        node.send(&key(session), "m1", &calls(&["slow"])).await;
    }
    for session in ["a", "b", "c", "d"] {
        assert_eq!(node.end_of(&key(session), "m1").await, End::Completed);
        assert_eq!(world.settlements(session).await, [Settlement::Done]);
    }
    assert_eq!(at_once(&world), 2);
    assert!(start.elapsed() < 25 * SECOND, "{:?}", start.elapsed());
    let [first, second] = workers.each_ref().map(Worker::figures);
    assert_eq!((first.taken, second.taken), (2, 2));
    for worker in workers {
        worker.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_share_the_pools_of_local_calls_and_are_given_back_when_those_are_full() {
    let world = slow_world(64);
    let node = world.start().await;
    let narrow = Options {
        pools: PoolOptions {
            functions_max: 1,
            ..PoolOptions::default()
        },
        ..Options::default()
    };
    let worker = Worker::start(&world, &world.stores, "w1", narrow).await;
    for session in ["a", "b", "c"] {
        node.send(&key(session), "m1", &calls(&["slow"])).await;
    }
    for session in ["a", "b", "c"] {
        assert_eq!(node.end_of(&key(session), "m1").await, End::Completed);
    }
    assert_eq!(at_once(&world), 1);
    let figures = worker.figures();
    assert!(figures.given_back > 0, "{figures:?}");
    let expected = JobFigures {
        claimed: 3,
        answered: 3,
        taken: 3 + figures.given_back,
        redelivered: figures.given_back,
        given_back: figures.given_back,
        ..JobFigures::default()
    };
    assert_eq!(figures, expected);
    assert_eq!(node.sessions.jobs().put, 3);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_tool_leaves_room_for_others() {
    let world = slow_world(64);
    let node = world.start().await;
    let mut options = Options::default();
    options.worker.jobs_max = 4;
    let worker = Worker::start(&world, &world.stores, "w1", options).await;
    for number in 0..8 {
        let session = format!("s{number}");
        node.send(&key(&session), "m1", &calls(&["slow"])).await;
    }
    sleep(SECOND).await;
    let start = Instant::now();
    node.send(&key("q"), "m1", &calls(&["quick"])).await;
    assert_eq!(node.end_of(&key("q"), "m1").await, End::Completed);
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_neither_admits_nor_drives_owns_no_session() {
    let world = remote_world();
    let worker = Worker::of(&world, "w1").await;
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    node.crash().await;
    // It neither renews a lease nor sweeps: the session waits for a node that drives.
    sleep(60 * SECOND).await;
    let activations = |event: &Event| matches!(event, Event::Activated { .. });
    assert_eq!(world.count_events(&key("s"), activations).await, 1);
    let node = world.start().await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_nothing_to_hand_over_leaves_every_turn_to_the_queue() {
    let world = World::shared();
    let api = Options {
        drives: false,
        handover_after: Duration::ZERO,
        ..Options::default()
    };
    let api = world.start_on(api, world.stores.clone()).await;
    let driver = world.start().await;
    api.send(&key("s"), "m1", &calls(&["look"])).await;
    assert_eq!(api.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(owners(&world, "s").await, nodes(&["n2"]));
    drop((api, driver));
}

/// Which nodes owned a session, in order.
async fn owners(world: &World, session: &str) -> Vec<NodeId> {
    let records = world.records(&key(session)).await;
    let events = records.iter().flat_map(|record| &record.entries);
    let events = events.flat_map(|entry| &entry.events);
    events
        .filter_map(|event| match event {
            Event::Activated { node, .. } => Some(node.clone()),
            _ => None,
        })
        .collect()
}

fn nodes(names: &[&str]) -> Vec<NodeId> {
    names
        .iter()
        .map(|name| NodeId::new(*name).unwrap())
        .collect()
}

fn without_driver() -> Options {
    Options {
        drives: false,
        ..Options::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_hands_its_turn_over_and_cuts_no_running_call_off() {
    let world = World::shared();
    let api = world.start_on(without_driver(), world.stores.clone()).await;
    let driver = world.start().await;
    let hanging = world.ledger.hanging.notified();
    api.send(&key("s"), "m1", &calls(&["hang"])).await;
    hanging.await;
    api.sessions.client_left(&key("s"));
    sleep(10 * SECOND).await;
    assert_eq!(owners(&world, "s").await, nodes(&["n1"]));
    world.ledger.gate.0.add_permits(1);
    assert_eq!(driver.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::Done]);
    assert_eq!(world.ledger.count("hang"), 1);
    assert_eq!(owners(&world, "s").await, nodes(&["n1", "n2"]));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_node_that_drives_changes_nothing() {
    let world = World::shared();
    let node = world.start().await;
    let _other = world.start().await;
    let hanging = world.ledger.hanging.notified();
    node.send(&key("s"), "m1", &calls(&["hang"])).await;
    hanging.await;
    node.sessions.client_left(&key("s"));
    world.ledger.gate.0.add_permits(1);
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(owners(&world, "s").await, nodes(&["n1"]));
}

#[tokio::test(start_paused = true)]
async fn a_message_says_who_runs_its_turn() {
    let mut world = World::shared();
    let name = world.agents.keys().next().unwrap().clone();
    let queue = Agent {
        drive: Drive::Queue,
        ..(*world.agents[&name]).clone()
    };
    let by_request = Arc::clone(&world.agents);
    let by_queue = Arc::new([(name, Arc::new(queue))].into());
    for (agents, said, expected) in [
        (&by_request, None, "n1"),
        (&by_request, Some(Drive::Queue), "n2"),
        (&by_queue, None, "n2"),
        (&by_queue, Some(Drive::Request), "n1"),
    ] {
        world = World::shared();
        world.agents = Arc::clone(agents);
        let api = world.start_on(without_driver(), world.stores.clone()).await;
        let driver = world.start().await;
        let (session, hello) = (key("s"), message("m1", "hello"));
        let said = api.sessions.admit_driven(&session, hello, said);
        said.await.unwrap();
        assert_eq!(api.end_of(&key("s"), "m1").await, End::Completed);
        assert_eq!(owners(&world, "s").await, nodes(&[expected]));
        drop((api, driver));
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_takes_over_what_its_predecessor_had_at_once() {
    let world = World::shared();
    let node = world.start().await;
    let hanging = world.ledger.hanging.notified();
    node.send(&key("s"), "m1", &calls(&["hang"])).await;
    hanging.await;
    node.crash().await;
    let next = Options {
        predecessor: Some(NodeId::new("n1").unwrap()),
        ..Options::default()
    };
    let start = Instant::now();
    let next = world.start_on(next, world.stores.clone()).await;
    assert_eq!(next.end_of(&key("s"), "m1").await, End::Completed);
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    assert_eq!(world.settlements("s").await, [Settlement::InDoubt]);
}

#[tokio::test(start_paused = true)]
async fn a_predecessor_that_answers_keeps_what_it_has() {
    let world = World::shared();
    let node = world.start().await;
    let hanging = world.ledger.hanging.notified();
    node.send(&key("s"), "m1", &calls(&["hang"])).await;
    hanging.await;
    let copy = Options {
        predecessor: Some(NodeId::new("n1").unwrap()),
        ..Options::default()
    };
    let _copy = world.start_on(copy, world.stores.clone()).await;
    sleep(30 * SECOND).await;
    world.ledger.gate.0.add_permits(1);
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(owners(&world, "s").await, nodes(&["n1"]));
}
