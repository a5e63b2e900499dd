//! Wires and the native loop's requests, without IO.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so and ends"
)]

mod checks;
mod compaction;
mod decode;
mod encode;
mod foreign;
mod fuzz;
mod guard;
mod history;
mod imitators;
mod replay;
mod support;
