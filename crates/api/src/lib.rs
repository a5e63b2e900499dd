//! The HTTP surface: native routes, streams, errors, who may ask what.
//!
//! ```text
//!  request --> guard, auth --> route --> input (strict) --> Backend --> Sessions::admit, load, ...
//!                                                             |
//!  response <-- error table <-- answer <----------------------+
//!  stream   <-- Subscriber <-- Hub <-- Sessions::follow
//! ```
//!
//! Must: answer every mistake with a problem document of a stable code that names the place; give
//! a receipt only for what is durable; give each follower every committed event once. Must never:
//! show one tenant's sessions to another; let a client slow a session; panic on any bytes.
#![warn(missing_docs)]

mod app;
mod auth;
mod backend;
mod chat;
mod error;
#[cfg(test)]
mod event_samples;
mod guard;
mod input;
mod messages;
mod metrics;
mod openapi;
mod options;
mod receipt;
mod routes;
mod serve;
mod session_view;
mod stream;

pub use app::{Api, app};
pub use auth::{ApiKey, Auth, Peer, Scope};
pub use error::{ErrorCode, Problem, ProblemBody};
pub use metrics::{MetricsSource, MetricsText};
pub use openapi::document;
pub use options::{Limits, Options, Surface};
pub use serve::serve;
