//! Messages of remote tools: calls as jobs in a queue, which outlive the node that asked for them.
//!
//! ```text
//!   owner of the session --put--> tool queue --next--> a worker of this program, or any other
//!             ^                                              |  claims a `never` run first
//!             +---------- mailbox <------- answer -----------+
//! ```

mod message;

pub use message::{input, job};
