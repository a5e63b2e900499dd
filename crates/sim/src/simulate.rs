//! The real runtime on paused time, over a store in memory with faults, with clients, models and
//! tools that misbehave: all drawn from one seed.
//!
//! ```text
//!   clients --admit--> Runtimes (real) --> faults --> witness --> memory
//!                        |    |                         |
//!                  tools, model (simulated)             +--> invariants, on each committed Record
//!                        |                              |
//!                  RemoteWorkers (real) <--jobs, claims-+
//! ```
//!
//! A run has a rough phase, in which nodes and workers are killed, stand still, are cut off, stop and
//! start, and the store fails, and a calm one, in which everything must settle. Two runs of a seed are equal to the byte.

mod client;
mod follower;
mod mistakes;
mod model;
mod node;
mod nodes;
mod setup;
mod tool;
mod witness;
mod workers;
mod world;

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::Timestamp;
use steadfast_store::clock::TokioClock;
use steadfast_store::{Stores, memory};

pub use setup::{Mistake, Setup, Troubles};
use world::World;

/// What a run found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Promises that were broken, in order.
    pub broken: Vec<String>,
    /// All that happened, one line each.
    pub trace: Vec<String>,
    /// Records that were committed.
    pub records: u64,
    /// Crashes of the node.
    pub crashes: u64,
}

/// Runs one seed.
pub fn simulate(seed: u64, setup: &Setup) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(seed, setup)),
        Err(error) => Report {
            seed,
            broken: vec![format!("no runtime: {error}")],
            trace: Vec::new(),
            records: 0,
            crashes: 0,
        },
    }
}

/// Everything must have settled this long after the faults stop. Longer than the longest backoff,
/// hold and approval, many times over.
const CALM: Duration = Duration::from_secs(6 * 3_600);

/// After this long a job that nobody keeps alive is delivered again.
const JOB_SILENCE: Duration = Duration::from_secs(5);
/// After this long the queue has forgotten what was put.
const JOB_DEDUPE: Duration = Duration::from_secs(2);

async fn run(seed: u64, setup: &Setup) -> Report {
    let start = Timestamp(1_800_000_000_000);
    let clock = TokioClock::starting_at(start);
    let stores = match setup.nodes {
        0 | 1 => memory::stores(Arc::new(clock)),
        _ => Stores {
            // Quick to deliver again and to forget what was put: calls outlast both.
            tool_queue: Some(memory::tool_queue(JOB_SILENCE, JOB_DEDUPE)),
            ..memory::shared_stores(Arc::new(clock))
        },
    };
    let world = World::new(seed, setup.clone(), clock);
    let stores = witness::watch(stores, &world);
    let mut nodes = nodes::Nodes::new(&world, &stores);
    let mut workers = workers::Workers::new(&world, &stores);
    nodes.start().await;
    workers.start().await;
    let mut clients = client::start_all(&world);
    tokio::join!(
        nodes.live_roughly(),
        workers.live_roughly(),
        nodes::elections(&world)
    );
    world.calm();
    workers.calm();
    nodes.calm().await;
    let finished = tokio::time::timeout(CALM, client::finish(&world, &mut clients)).await;
    if finished.is_err() {
        let how = format!("the clients did not come to an end; open: {}", world.open());
        world.broken("clients", &how);
    }
    workers.land_writes().await;
    nodes.settle(CALM).await;
    world.settled();
    client::end(clients);
    nodes.stop().await;
    workers.stop().await;
    world.report(seed)
}
