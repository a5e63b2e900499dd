//! Scenarios: inputs in, the printed event log out. `UPDATE_EXPECT=1 cargo test -p steadfast-core`
//! rewrites the expectations; read the difference before it is committed.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, outside the functions that the lint knows as tests"
)]

mod calls;
mod children;
mod commands;
mod lifecycle;
mod loop_control;
mod model;
mod people;
mod print;
mod properties;
mod remote;
mod reports;
mod turns;
mod world;
