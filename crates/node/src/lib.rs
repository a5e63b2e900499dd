//! Steadfast: durable AI-agent sessions, as one binary and a library.
//!
//! ```text
//!   command line ----> config ----+
//!                                 +--> NodeBuilder --> wiring --> RunningNode
//!   your program --> Node, Agent -+                      |
//!                                                        +--> store, providers, tools, runtime, api
//! ```
//!
//! Must: refuse to start on less than what the configuration asks for, with everything that is
//! wrong at once. Must never: print a secret; know anything about sessions itself.
//!
//! An agent with a tool of your own is a few lines: see `examples/refund_desk.rs`.

pub mod config;
pub mod node;
pub mod running;
pub mod start_error;
pub mod telemetry;

mod client;
mod command;
mod demo;
mod event_schema;
mod signal;
mod terminal;
mod tls;
mod tool_queue_schema;
mod wiring;

pub use command::run;
pub use node::{Agent, Node, NodeBuilder};
pub use running::RunningNode;
pub use start_error::StartError;
/// Tools: what they are and how they are written.
pub use steadfast_tools as tools;
