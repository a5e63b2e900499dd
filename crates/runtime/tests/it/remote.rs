//! Remote tools: jobs, claims, answers by mail, and all that may go wrong between them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use steadfast_core::command::CommandBody;
use steadfast_core::content::{Stored, ToolOutput};
use steadfast_core::event::{Event, Settlement};
use steadfast_core::id::{NodeId, SessionKey};
use steadfast_core::input::CheckAnswer;
use steadfast_core::receipt::End;
use steadfast_runtime::sessions::Sessions;
use steadfast_runtime::{Drained, JobFigures, Options, Runtime, RuntimeHandle, WorkerOptions};
use steadfast_store::fault::{Fault, FaultLayer, FaultPlan, Odds, Operation};
use steadfast_store::jobs::JobDelivery;
use steadfast_store::local::LocalMembership;
use steadfast_store::mailbox::Lane;
use steadfast_store::{Stores, memory};
use steadfast_tools::definition::ToolDefinition;
use tokio::time::sleep;

use crate::world::{Fault as LogFault, Ledger, Node, World, calls, command, key, tool};

const SECOND: Duration = Duration::from_secs(1);

/// A world with remote tools whose queue forgets after two seconds what was put.
pub(crate) fn remote_world() -> World {
    let mut world = World::with_tools(|builder, ledger| {
        let tools = ["pay", "pay_keyed", "pay_checked"].map(|name| pay(name, ledger));
        let [pay, keyed, checked] = tools;
        let ledger = Arc::clone(ledger);
        let checked = checked.check(move |_: Value, call| {
            let acted = ledger.count("pay_checked 1") > 0;
            ledger.write(format!("check {}", call.attempt()));
            async move {
                match acted {
                    true => CheckAnswer::Done(ToolOutput::text("it was").into()),
                    false => CheckAnswer::NotDone,
                }
            }
        });
        let large = tool("large", |_, _| async { Ok("x".repeat(400_000)) });
        builder
            .with(pay)
            .with(keyed.keyed())
            .with(checked)
            .with(large.remotely())
    });
    for_workers(&mut world);
    world
}

/// Gives a world a tool queue, and leaves its jobs to workers of their own.
pub(crate) fn for_workers(world: &mut World) {
    world.stores.tool_queue = Some(memory::tool_queue(30 * SECOND, 2 * SECOND));
    world.stores.membership = Arc::new(LocalMembership::shared());
    // Nodes that own sessions run no jobs here, and workers own none.
    world.options.works = false;
}

/// A tool that takes a minute, and says when it begins.
fn pay(name: &'static str, ledger: &Arc<Ledger>) -> ToolDefinition {
    let ledger = Arc::clone(ledger);
    tool(name, move |_, call| {
        ledger.write(format!("{name} {}", call.attempt()));
        async move {
            tokio::select! { biased;
                () = call.cancelled().cancelled() => Ok("stopped".to_owned()),
                () = sleep(60 * SECOND) => Ok("paid".to_owned()),
            }
        }
    })
    .remotely()
}

/// A process that does nothing but run remote tools.
pub(crate) struct Worker {
    sessions: Sessions,
    handle: RuntimeHandle,
}

impl Worker {
    pub(crate) async fn start(
        world: &World,
        stores: &Stores,
        name: &str,
        options: Options,
    ) -> Self {
        let options = Options {
            admits: false,
            drives: false,
            works: true,
            ..options
        };
        let agents = Arc::clone(&world.agents);
        let clock = Arc::new(world.clock);
        let node = NodeId::new(name).unwrap();
        let started = Runtime::start(options, stores.clone(), agents, clock, node);
        let (sessions, handle) = started.await.unwrap();
        Self { sessions, handle }
    }

    pub(crate) async fn of(world: &World, name: &str) -> Self {
        Self::start(world, &world.stores, name, Options::default()).await
    }

    pub(crate) fn figures(&self) -> JobFigures {
        self.sessions.jobs()
    }

    /// Ends it as a power cut would.
    fn crash(self) {
        drop(self.handle);
    }

    pub(crate) async fn drain(self) -> Drained {
        self.handle.shutdown(std::future::pending()).await
    }
}

/// A worker that never says that it is still at it.
fn silent() -> Options {
    let keep_alive_every = Duration::from_secs(1_000);
    Options {
        worker: WorkerOptions {
            keep_alive_every,
            ..WorkerOptions::default()
        },
        ..Options::default()
    }
}

async fn next_job(world: &World, tool: &str) -> Arc<dyn JobDelivery> {
    let queue = world.stores.tool_queue.clone().unwrap();
    queue.jobs.next(&[tool.to_owned()]).await.unwrap()
}

/// What a worker that is no part of this program sends.
async fn answer(world: &World, job: &dyn JobDelivery, change: Value) {
    let message: Value = serde_json::from_slice(&job.job().bytes).unwrap();
    let mut answer = json!({
        "version": 1, "kind": message["kind"], "call": message["call"],
        "attempt": message["attempt"],
    });
    let fields = answer.as_object_mut().unwrap();
    fields.extend(change.as_object().unwrap().clone());
    let bytes = Bytes::from(answer.to_string());
    let session = &job.job().name.session;
    let mailbox = &world.stores.mailbox;
    mailbox
        .send(session, Lane::Control, "a", bytes)
        .await
        .unwrap();
}

/// What the model was told of the only call.
async fn told(world: &World, session: &SessionKey) -> Vec<ToolOutput> {
    let records = world.records(session).await;
    let events = records.iter().flat_map(|record| &record.entries);
    let events = events.flat_map(|entry| &entry.events);
    let outputs = events.filter_map(|event| match event {
        Event::CallSettled { output, .. } | Event::CallResolved { output, .. } => Some(output),
        _ => None,
    });
    outputs
        .map(|output| match (&output.model_view, &output.output) {
            (Some(view), _) => (**view).clone(),
            (None, Stored::Inline(output)) => output.clone(),
            (None, Stored::Blob(_)) => panic!("the model is told nothing"),
        })
        .collect()
}

async fn until_queued(world: &World, node: &Node, session: &SessionKey) {
    use steadfast_core::call::CallState;
    node.until(session, |session| {
        let turn = session.turn.as_ref()?;
        let mut calls = turn.calls.iter();
        let all = calls.all(|call| matches!(call.state, CallState::Queued { .. }));
        (all && !turn.calls.is_empty()).then_some(())
    })
    .await;
    assert!(world.story(session).await.contains("job_queued"));
}

#[tokio::test(start_paused = true)]
async fn a_store_without_a_tool_queue_is_refused_at_the_start() {
    let mut world = remote_world();
    world.stores.tool_queue = None;
    let clock = Arc::new(world.clock);
    let node = NodeId::new("n1").unwrap();
    let agents = Arc::clone(&world.agents);
    let started = Runtime::start(
        world.options.clone(),
        world.stores.clone(),
        agents,
        clock,
        node,
    )
    .await;
    let error = started.err().map(|error| error.to_string());
    let expected = "tool \"pay\" of agent helper is remote, and this store has no tool queue: give \
                    the tool another executor, or use a store that several nodes share";
    assert_eq!(error.as_deref(), Some(expected));
}

#[tokio::test(start_paused = true)]
async fn a_remote_call_is_a_job_that_a_worker_answers() {
    let world = remote_world();
    let (node, worker) = (world.start().await, Worker::of(&world, "w1").await);
    node.send(&key("s"), "m1", &calls(&["pay", "pay_keyed"]))
        .await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::Done; 2]);
    assert_eq!(
        told(&world, &key("s")).await,
        vec![ToolOutput::text("paid"); 2]
    );
    assert_eq!(world.ledger.lines(), ["pay 1", "pay_keyed 1"]);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_remote_call_outlives_its_owner() {
    let world = remote_world();
    let (node, worker) = (world.start().await, Worker::of(&world, "w1").await);
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    until_queued(&world, &node, &key("s")).await;
    node.crash().await;
    let node = world.start().await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::Done]);
    assert_eq!(world.ledger.lines(), ["pay 1"]);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_wakes_a_session_that_nobody_owns() {
    let world = remote_world();
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    let job = next_job(&world, "pay").await;
    node.until_gone().await;
    answer(
        &world,
        &*job,
        json!({ "outcome": { "type": "done", "output": "paid" } }),
    )
    .await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(told(&world, &key("s")).await, [ToolOutput::text("paid")]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_silent_too_long_does_not_make_a_never_call_run_twice() {
    let world = remote_world();
    let node = world.start().await;
    let paused = Worker::start(&world, &world.stores, "w1", silent()).await;
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    until_queued(&world, &node, &key("s")).await;
    let other = Worker::of(&world, "w2").await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::Done]);
    assert_eq!(world.ledger.lines(), ["pay 1"]);
    drop((paused, other));
}

#[tokio::test(start_paused = true)]
async fn a_job_given_to_its_own_worker_again_is_not_run_again() {
    let world = remote_world();
    let node = world.start().await;
    let worker = Worker::start(&world, &world.stores, "w1", silent()).await;
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["pay 1"]);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_killed_before_its_put_is_recorded_puts_again_after_the_dedupe_time() {
    let world = remote_world();
    let (node, worker) = (world.start().await, Worker::of(&world, "w1").await);
    // The append after the one that asks for the call: the job stands, and its log does not say so.
    node.send(&key("s"), "m1", &calls(&["look"])).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    let before = world.log.appends();
    node.send(&key("s"), "m2", &calls(&["pay"])).await;
    while world.ledger.count("pay 1") == 0 {
        world.log.fail(1, LogFault::HangsBefore);
        sleep(Duration::from_millis(1)).await;
    }
    assert!(world.log.appends() > before);
    sleep(3 * SECOND).await;
    node.crash().await;
    let node = world.start().await;
    assert_eq!(node.end_of(&key("s"), "m2").await, End::Completed);
    assert_eq!(world.ledger.count("pay 1"), 1);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_put_that_lands_late_does_not_make_a_never_call_run_twice() {
    let mut world = remote_world();
    let plan = Arc::new(FaultPlan::new(SmallRng::seed_from_u64(1), Odds::NONE));
    let inner = world.stores.clone();
    let layer = FaultLayer::new(&inner, Arc::clone(&plan));
    world.stores = Stores {
        log: Arc::clone(&inner.log),
        ..layer.stores().clone()
    };
    let node = world.start().await;
    let worker = Worker::start(&world, &inner, "w1", Options::default()).await;
    let delay = 90 * SECOND;
    plan.inject(Operation::PutJob, Fault::Ghost { delay });
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    sleep(120 * SECOND).await;
    assert_eq!(world.settlements("s").await, [Settlement::Done]);
    assert_eq!(world.ledger.lines(), ["pay 1"]);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_before_any_worker_has_the_job_is_known_to_have_come_in_time() {
    let world = remote_world();
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    until_queued(&world, &node, &key("s")).await;
    let cancel = command("c1", CommandBody::Cancel { turn: None });
    node.sessions.admit(&key("s"), cancel).await.unwrap();
    let told = node
        .until(&key("s"), |session| {
            (session.outbox.is_empty() && session.in_doubt.is_empty()).then_some(())
        })
        .await;
    assert_eq!(told, ());
    assert_eq!(world.settlements("s").await, [Settlement::InDoubt]);
    assert!(world.story(&key("s")).await.contains("call_resolved"));
    // The job that a late put brings back is not run either.
    let worker = Worker::of(&world, "w1").await;
    sleep(60 * SECOND).await;
    assert!(world.ledger.lines().is_empty());
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_worker_and_its_answer_comes_late() {
    let world = remote_world();
    let (node, worker) = (world.start().await, Worker::of(&world, "w1").await);
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    until_queued(&world, &node, &key("s")).await;
    sleep(SECOND).await;
    let cancel = command("c1", CommandBody::Cancel { turn: None });
    node.sessions.admit(&key("s"), cancel).await.unwrap();
    node.until(&key("s"), |session| {
        session.in_doubt.is_empty().then_some(())
    })
    .await;
    assert_eq!(world.settlements("s").await, [Settlement::InDoubt]);
    let last = told(&world, &key("s")).await.pop();
    assert_eq!(last, Some(ToolOutput::text("stopped")));
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_no_worker_takes_ends_at_its_deadline_as_not_run() {
    let world = remote_world();
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::Unreachable]);
    let worker = Worker::of(&world, "w1").await;
    sleep(60 * SECOND).await;
    assert!(world.ledger.lines().is_empty());
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_leaves_a_never_call_in_doubt_and_runs_a_keyed_one_again() {
    let world = remote_world();
    let (node, worker) = (world.start().await, Worker::of(&world, "w1").await);
    node.send(&key("s"), "m1", &calls(&["pay", "pay_keyed"]))
        .await;
    until_queued(&world, &node, &key("s")).await;
    sleep(SECOND).await;
    worker.crash();
    let other = Worker::of(&world, "w2").await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    let mut settled = world.settlements("s").await;
    settled.sort();
    assert_eq!(settled, [Settlement::Done, Settlement::InDoubt]);
    assert_eq!(world.ledger.count("pay 1"), 1);
    assert_eq!(world.ledger.count("pay_keyed 1"), 2);
    other.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_never_call_runs_again_only_after_its_check_said_that_it_did_not_happen() {
    let world = remote_world();
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["pay_checked"])).await;
    // A worker claims the job and dies before it does anything.
    let job = next_job(&world, "pay_checked").await;
    let queue = world.stores.tool_queue.clone().unwrap();
    let claim = job.job().name.claim_key();
    queue.claims.claim(&claim, "dead-0").await.unwrap();
    let worker = Worker::of(&world, "w1").await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::Done]);
    assert_eq!(world.ledger.lines(), ["check 1", "pay_checked 2"]);
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_too_large_for_a_letter_stands_beside_it() {
    let world = remote_world();
    let (node, worker) = (world.start().await, Worker::of(&world, "w1").await);
    node.send(&key("s"), "m1", &calls(&["large"])).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::Done]);
    let told = told(&world, &key("s")).await;
    let bytes = serde_json::to_vec(&told).unwrap().len();
    assert!((8_000..20_000).contains(&bytes), "{bytes} bytes");
    worker.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_understood_is_no_outcome() {
    let world = remote_world();
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    let job = next_job(&world, "pay").await;
    answer(&world, &*job, json!({ "outcome": { "type": "payed" } })).await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(world.settlements("s").await, [Settlement::InDoubt]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_twice_settles_once() {
    let world = remote_world();
    let node = world.start().await;
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    let job = next_job(&world, "pay").await;
    for output in ["paid", "paid", "paid again"] {
        answer(
            &world,
            &*job,
            json!({ "outcome": { "type": "done", "output": output } }),
        )
        .await;
    }
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    sleep(10 * SECOND).await;
    assert_eq!(told(&world, &key("s")).await, [ToolOutput::text("paid")]);
    let mail = &world.stores.mailbox;
    let left = mail
        .pending(&key("s"), Default::default(), 10)
        .await
        .unwrap();
    assert_eq!(left, Vec::new());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_shut_down_ends_what_it_runs_first() {
    let world = remote_world();
    let node = world.start().await;
    let patient = Options {
        drain_grace: 120 * SECOND,
        ..Options::default()
    };
    let worker = Worker::start(&world, &world.stores, "w1", patient).await;
    node.send(&key("s"), "m1", &calls(&["pay"])).await;
    until_queued(&world, &node, &key("s")).await;
    sleep(SECOND).await;
    worker.drain().await;
    assert_eq!(node.end_of(&key("s"), "m1").await, End::Completed);
    assert_eq!(told(&world, &key("s")).await, [ToolOutput::text("paid")]);
}
