//! One process and its neighbours: the real binary, a ledger, a provider, a client.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so and ends"
)]

mod agents;
mod approvals;
mod bad_input;
mod chat;
mod config_errors;
mod crash_matrix;
mod damaged_record;
mod full_disk;
mod late_request;
mod many_sessions;
mod mcp;
mod models;
mod neighbours;
mod on_a_broker;
mod one_process;
mod run_ahead;
mod shutdown;
mod streams;
mod tour;
mod webhook;
mod workers;
