//! The store in memory and the fault layer, against the suite and by themselves.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod append_rule;
mod conforming;
mod faults;
mod mutants;
mod samples;
mod waking;
