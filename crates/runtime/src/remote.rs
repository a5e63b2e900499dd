//! Runs remote tools of this program: jobs out of the tool queue, in the pools of this node.
//!
//! ```text
//!   tool queue --next--> Worker --place in a pool--> claim (a `never` run) --> the tool's own actor
//!       ^                                                                          |
//!       +-- finished <-- mailbox of the session <------------- answer -------------+
//! ```

mod claim;
mod counts;
mod delivery;
mod options;
mod worker;

pub(crate) use counts::JobCounts;
pub use counts::JobFigures;
pub use options::WorkerOptions;
pub(crate) use worker::RemoteWorker;
