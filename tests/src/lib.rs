//! What whole-product tests need: the real binary as a child, and its neighbours.
//!
//! ```text
//!   Client, EventClient ---> Product (child process, killed and started again)
//!                               |            |
//!                               v            v
//!                            Ledger      provider server        (in the test's own process)
//! ```
//!
//! The neighbours live in the test's process, so they outlive every crash of the product and
//! remember all that reached them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so and ends"
)]

pub mod client;
pub mod crash_log;
pub mod cut_proxy;
pub mod events;
pub mod http_server;
pub mod joined;
pub mod ledger;
pub mod left_out;
pub mod node_project;
pub mod product;
pub mod provider_events;
pub mod provider_rules;
pub mod provider_server;
pub mod wrong_clock;
