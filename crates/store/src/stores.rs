//! The ports of one store together.

use std::sync::Arc;

use crate::active::ActiveIndex;
use crate::blobs::Blobs;
use crate::claims::Claims;
use crate::directory::Directory;
use crate::jobs::Jobs;
use crate::live::Live;
use crate::log::Log;
use crate::mailbox::Mailbox;
use crate::membership::Membership;
use crate::node_door::NodeDoors;
use crate::snapshots::Snapshots;
use crate::timers::Timers;

/// All ports of a store.
#[derive(Clone)]
pub struct Stores {
    /// The log.
    pub log: Arc<dyn Log>,
    /// The mailboxes and the queue.
    pub mailbox: Arc<dyn Mailbox>,
    /// The timers.
    pub timers: Arc<dyn Timers>,
    /// The index of owned sessions.
    pub active: Arc<dyn ActiveIndex>,
    /// The directory.
    pub directory: Arc<dyn Directory>,
    /// The blobs.
    pub blobs: Arc<dyn Blobs>,
    /// The snapshots.
    pub snapshots: Arc<dyn Snapshots>,
    /// The live frames.
    pub live: Arc<dyn Live>,
    /// The leases of nodes.
    pub membership: Arc<dyn Membership>,
    /// The doors of nodes.
    pub node_doors: Arc<dyn NodeDoors>,
    /// The queue of remote tools; `None`: this store has none, and no tool can be remote.
    pub tool_queue: Option<ToolQueue>,
}

/// What remote tools need of a store: a queue is of no use without claims.
#[derive(Clone)]
pub struct ToolQueue {
    /// The jobs.
    pub jobs: Arc<dyn Jobs>,
    /// Who runs what must not run twice.
    pub claims: Arc<dyn Claims>,
}

/// What an acknowledgement of a store means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarantee {
    /// Synced to disk before it is given.
    pub fsync: bool,
    /// Copies on different servers before it is given.
    pub replicas: u32,
}
