//! The store ports on NATS JetStream, for many nodes.
//!
//! ```text
//!  ports ----> request.rs, batch_get.rs ----> one connection ----> streams  SF_LOG_0 ... SF_DEAD
//!    |                                              ^                |
//!    +-- mailbox, timers, jobs: pull.rs ------------+                +-- committed records, leases:
//!    +-- live frames, doors of nodes: not stored                         republished, for followers
//! ```
//!
//! The broker does the replication, the compare-and-append, the queues and the timers; this crate
//! says what the ports' words are in its words. Must: call an outcome known only when an answer of
//! the broker tells it; read from the leader where a port promises that nothing acknowledged is
//! missed; check what it finds at start before it uses it. Must never: make a consumer for each
//! session; hold anything in memory for a session that nobody follows and whose mail is not out.
//!
//! One file for each port it implements, named as the port.

mod options;
mod store;

mod preflight;
mod setup;

mod active;
mod blobs;
mod claims;
mod directory;
mod jobs;
mod live;
mod log;
mod mailbox;
mod membership;
mod node_door;
mod snapshots;
mod timers;

mod batch_get;
mod connect;
mod fault;
mod headers;
mod pieces;
mod pull;
mod request;
mod subject;
mod task;

pub use options::{Auth, Options, Tls};
pub use preflight::PreflightError;
pub use setup::SetupError;
pub use store::{NatsStore, OpenError, Seen};
