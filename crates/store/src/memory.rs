//! All ports in memory: for tests, the simulator and examples. Nothing survives the process.
//!
//! Deterministic on a paused single-threaded runtime: no clock of its own, no random choice, no
//! unordered collection, and no task of its own.

mod active;
mod blobs;
mod claims;
mod directory;
mod jobs;
mod log;
mod mailbox;
mod snapshots;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::local::{LocalLive, LocalMembership, LocalNodeDoors};
use crate::stores::{Stores, ToolQueue};
use crate::{jobs as jobs_port, mailbox as mailbox_port, timers as timers_port};

pub use active::MemoryActiveIndex;
pub use blobs::MemoryBlobs;
pub use claims::MemoryClaims;
pub use directory::MemoryDirectory;
pub use jobs::MemoryJobs;
pub use log::MemoryLog;
pub use mailbox::MemoryMailbox;
pub use snapshots::MemorySnapshots;
pub use timers::MemoryTimers;

/// A fresh store in memory that one node has at a time: whatever other node it names is gone.
pub fn stores(clock: Arc<dyn Clock>) -> Stores {
    let stores = stores_with(
        clock,
        mailbox_port::DELIVERY_SILENCE,
        timers_port::TIMER_SILENCE,
    );
    Stores {
        tool_queue: Some(tool_queue(jobs_port::JOB_SILENCE, jobs_port::JOB_DEDUPE)),
        ..stores
    }
}

/// A fresh store in memory that several nodes share.
pub fn shared_stores(clock: Arc<dyn Clock>) -> Stores {
    Stores {
        membership: Arc::new(LocalMembership::shared()),
        ..stores(clock)
    }
}

/// A fresh store in memory that repeats what met silence after other delays than usual.
pub fn stores_with(
    clock: Arc<dyn Clock>,
    delivery_silence: Duration,
    timer_silence: Duration,
) -> Stores {
    Stores {
        log: Arc::new(MemoryLog::default()),
        mailbox: Arc::new(MemoryMailbox::new(delivery_silence)),
        timers: Arc::new(MemoryTimers::new(clock, timer_silence)),
        active: Arc::new(MemoryActiveIndex::default()),
        directory: Arc::new(MemoryDirectory::default()),
        blobs: Arc::new(MemoryBlobs::default()),
        snapshots: Arc::new(MemorySnapshots::default()),
        live: Arc::new(LocalLive::default()),
        membership: Arc::new(LocalMembership::alone()),
        node_doors: Arc::new(LocalNodeDoors::default()),
        tool_queue: Some(tool_queue(delivery_silence, jobs_port::JOB_DEDUPE)),
    }
}

/// A tool queue in memory that repeats what met silence, and forgets what was put, after other
/// delays than usual.
pub fn tool_queue(silence: Duration, dedupe: Duration) -> ToolQueue {
    ToolQueue {
        jobs: Arc::new(MemoryJobs::new(silence, dedupe)),
        claims: Arc::new(MemoryClaims::default()),
    }
}
