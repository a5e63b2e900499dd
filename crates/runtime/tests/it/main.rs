//! The runtime on stores in memory, on paused time: whole turns, crashes, lost ownership.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the lints know tests by their attribute, not what tests share"
)]

mod world;

mod admission;
mod approvals;
mod cluster;
mod crash;
mod fence;
mod follow;
mod handover;
mod lifetime;
mod parking;
mod pools;
mod remote;
mod remote_workers;
mod repair;
mod tools;
mod trace;
mod turn;
mod wake;
