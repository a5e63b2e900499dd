//! Steadfast's providers against a provider in this process, over real connections.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so and ends"
)]

mod ask;
mod failures;
mod replies;
