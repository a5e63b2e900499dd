//! The store on files, on a disk that crashes, on a disk that is full, and in a killed process.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on says so and ends"
)]

mod compacting;
mod corruption;
mod crash;
mod disk;
mod disk_full;
mod far_timers;
mod grouping;
mod journal;
mod kill;
mod model;
mod opening;
mod samples;
mod suite;
