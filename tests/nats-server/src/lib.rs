//! Real brokers for tests: one server, or a cluster of three, on free ports of the loopback address.
//!
//! ```text
//!   NatsServer::start(..)       one server that syncs each write, or not
//!   NatsCluster::start(..)      three of them that know each other
//! ```
//!
//! Each server is a child of the test's process and ends with the value that started it, also when
//! the process itself is killed. The program is fetched once into `.tools/` of the workspace, pinned
//! by version and hash.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on says so and ends"
)]

mod cluster;
mod fetch;
mod ports;
mod server;

pub use cluster::NatsCluster;
pub use fetch::{Fetched, NATS_SERVER};
pub use server::{NatsServer, Settings};
