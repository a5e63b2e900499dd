//! What durability means: the ports as specifications, an in-memory store with faults, and the
//! conformance suite that every store passes.
//!
//! ```text
//!   runtime, api ---> dyn Log, dyn Mailbox, ... <--- memory | redb | ...
//!                            ^
//!                          suite: one set of tests for all of them
//! ```
//!
//! A trait's doc comment is its specification: what an acknowledgement means, what is ordered,
//! what may be lost, and what each error says about the write.
#![warn(missing_docs)]

pub mod active;
pub mod blobs;
pub mod claims;
pub mod clock;
pub mod directory;
pub mod error;
pub mod fault;
pub mod jobs;
pub mod live;
pub mod local;
pub mod log;
pub mod mailbox;
pub mod membership;
pub mod memory;
pub mod node_door;
pub mod snapshots;
mod stores;
pub mod suite;
pub mod timers;

pub use stores::{Guarantee, Stores, ToolQueue};
