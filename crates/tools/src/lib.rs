//! What a tool is: its specification, the catalog of an agent, schema checks, and what runs it.
//!
//! ```text
//!  configuration, Rust code ---> Catalog --triage--> is it known, active, valid, allowed, startable
//!                                   |
//!                                   +---> ToolWorker: function | HTTP | command | MCP | (client: none)
//!                                   |
//!                                   +---> tool queue ---> a worker, here or elsewhere
//! ```
//!
//! Must: check every input before a tool runs; call an outcome that is not known
//! [`Unknown`](steadfast_core::input::CallOutcome::Unknown). Must never: give a tool anything of the
//! session but what its [`Job`](worker::Job) holds; repeat a call by itself.
#![warn(missing_docs)]

mod answer;
pub mod approval;
pub mod catalog;
pub mod command;
mod cut;
pub mod definition;
pub mod demo;
pub mod filter;
pub mod function;
pub mod http;
pub mod mcp;
mod received;
pub mod remote;
pub mod schema;
pub mod spec;
#[cfg(test)]
mod testing;
pub mod worker;
