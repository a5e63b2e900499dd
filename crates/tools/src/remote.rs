//! Remote tools: calls as jobs in a queue, which outlive the node that asked for them.
//!
//! ```text
//!   owner of the session --put--> tool queue --next--> RemoteWorker (or any other program)
//!             ^                                              |  claims a `never` run first
//!             +---------- mailbox <------- answer -----------+
//! ```

mod claim;
mod message;
mod options;
mod running;
mod worker;

pub use message::{input, job};
pub use options::WorkerOptions;
pub use worker::RemoteWorker;
