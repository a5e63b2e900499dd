//! The membership port: which nodes are alive.

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use steadfast_core::id::NodeId;

use crate::error::{ReadError, WriteError};

/// A lease that is not renewed disappears after about this long. It only tidies up: nobody is taken
/// for dead because of it.
pub const LEASE_TTL: std::time::Duration = std::time::Duration::from_secs(30);

/// Something seen of other nodes' leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseSignal {
    /// A node renewed its lease.
    Renewed(NodeId),
    /// A node gave its lease back: it ended in order.
    Ended(NodeId),
    /// What was renewed meanwhile may have been missed: silence so far proves nothing.
    Interrupted,
}

/// Leases of nodes: signs of life, nothing else. No decision about a session rests on them.
#[async_trait]
pub trait Membership: Send + Sync {
    /// Whether no other process is at this store while this one is: then every other node that the
    /// store names is gone, and needs no test.
    fn is_alone(&self) -> bool {
        false
    }

    /// Writes or renews this node's own lease. A lease that is gone is written again.
    async fn renew(&self, node: &NodeId) -> Result<(), WriteError>;

    /// Gives this node's lease back. Repeating it is harmless.
    async fn end(&self, node: &NodeId) -> Result<(), WriteError>;

    /// Every renewal from now on, the callers' own too, until dropped. A renewal is signalled at
    /// most once, soon or never; after a gap comes [`LeaseSignal::Interrupted`].
    async fn watch(&self) -> Result<BoxStream<'static, LeaseSignal>, ReadError>;
}
