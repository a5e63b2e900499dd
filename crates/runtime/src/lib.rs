//! Keeps sessions alive: actors, driver, dispatch, tool pools, timers, passivation.
//!
//! ```text
//!   api --admit--> Sessions --> Door --> actor --> Driver --> decide, append, apply
//!                     |          ^                  |  ^
//!                     |          |                  v  |  outcomes
//!                     |   queue, timers, sweep   Dispatcher: outstanding() against running
//!                     v                             |
//!                  mailbox (no room, or lost)       +--> model calls, tool calls, checks
//! ```
//!
//! Must: start an effect only when what asks for it is committed, or, for the few that may run
//! ahead, in the one Record in flight; stop at the first conflict. Must never: keep state that the
//! log does not hold and that matters; retry an append with other bytes.
#![warn(missing_docs)]

pub mod agent;
pub mod options;
pub mod sessions;

mod runtime;

mod doors;
mod feed;
mod handover;
mod host;
mod members;
mod node_door;

mod actor;
mod driver;
mod journal;

mod dispatch;
mod load;
mod pools;
mod remote;
mod sources;
mod spill;
mod trace;
mod triage;

mod open;
mod pack;
mod rows;
mod snapshot;

mod directory;
mod queue;
mod sweep;
mod timers;
mod webhook;

pub use options::{Options, PoolOptions};
pub use remote::{JobFigures, WorkerOptions};
pub use runtime::{Drained, Runtime, RuntimeHandle, StartError};
pub use webhook::{InvalidSecret, WebhookFigures, WebhookOptions, WebhookSecret};
