//! Faults between a node and its store, decided by one plan.
//!
//! ```text
//!   node ---> FaultLayer ---> any Stores
//!                 |
//!             FaultPlan: seeded odds, a script, cuts, elections; one switch turns all of it off
//! ```
//!
//! A layer stands for one node's connection: nodes of a simulation have a layer and a plan each,
//! over the same stores. What a layer answers, the ports allow: a caller that keeps to them
//! survives it. Deterministic on a paused single-threaded runtime: the only randomness is the
//! generator that the plan was given.
//!
//! A write that was begun does not stop when its caller is dropped: like a request that has left
//! the process, it lands or not without anybody waiting.

mod active;
mod blobs;
mod directory;
mod election;
mod jobs;
mod line;
mod live;
mod log;
mod mailbox;
mod membership;
mod node_doors;
mod odds;
mod operation;
mod plan;
mod rival;
mod snapshots;
mod timers;

use std::sync::Arc;

use crate::stores::Stores;

pub use election::{Elections, Stream};
pub use odds::Odds;
pub use operation::{Fault, Operation};
pub use plan::FaultPlan;
pub use rival::RIVAL;

use line::Line;

/// One node's faulty connection to its stores. Dropped, it takes with it what is still under way:
/// keep it beyond the end of its node where a write of a dead node shall still land.
pub struct FaultLayer {
    stores: Stores,
    line: Arc<Line>,
}

impl FaultLayer {
    /// Puts `plan` between a node and `inner`.
    pub fn new(inner: &Stores, plan: Arc<FaultPlan>) -> Self {
        let line = Arc::new(Line::new(plan));
        let stores = Stores {
            log: Arc::new(log::FaultyLog::new(inner, &line)),
            mailbox: Arc::new(mailbox::FaultyMailbox::new(inner, &line)),
            timers: Arc::new(timers::FaultyTimers::new(inner, &line)),
            active: Arc::new(active::FaultyActiveIndex::new(inner, &line)),
            directory: Arc::new(directory::FaultyDirectory::new(inner, &line)),
            blobs: Arc::new(blobs::FaultyBlobs::new(inner, &line)),
            snapshots: Arc::new(snapshots::FaultySnapshots::new(inner, &line)),
            live: Arc::new(live::FaultyLive::new(inner, &line)),
            membership: Arc::new(membership::FaultyMembership::new(inner, &line)),
            node_doors: Arc::new(node_doors::FaultyNodeDoors::new(inner, &line)),
            tool_queue: inner
                .tool_queue
                .as_ref()
                .map(|queue| jobs::tool_queue(queue, &line)),
        };
        Self { stores, line }
    }

    /// The ports as the node sees them.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Waits until every write that was begun has landed or failed.
    pub async fn settle(&self) {
        self.line.settle().await;
    }
}
