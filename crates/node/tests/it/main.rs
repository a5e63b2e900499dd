//! The library and the command line, as somebody uses them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is missing fails its test"
)]

mod against_a_node;
mod command_line;
mod example;
mod lifeline;
mod process;
mod streams;
