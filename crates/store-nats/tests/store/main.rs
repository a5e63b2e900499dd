//! The store against real brokers: one, and a cluster of three.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on says so and ends"
)]

mod brokers;
mod opening;
mod outages;
mod suite;
