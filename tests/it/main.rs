//! One process and its neighbours: the real binary, a ledger, a provider, a client.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so and ends"
)]

mod crash_matrix;
mod many_sessions;
mod models;
mod neighbours;
mod run_ahead;
