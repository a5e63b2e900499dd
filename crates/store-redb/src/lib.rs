//! The store ports in one redb file, for one node.
//!
//! ```text
//!  ports ---- writes ---> queue (bounded) ---> writer thread ---> one transaction, one sync
//!    |                                              |
//!    |                                              +---> news: followers, mail, timers
//!    +------- reads ----> a view of what is committed, any thread
//! ```
//!
//! Must: acknowledge what is promised as kept only after the disk has it; give an operation the
//! same outcome whatever shares its group; say `Unknown` only when nobody can know; let no other
//! process at the file. Must never: write after the file has failed; wait by polling; hold anything
//! in memory for a session that is idle and that nobody follows.
//!
//! One file for each port it implements, named as the port.

mod open;
mod options;
mod stats;

mod engine;
mod writer;

mod group;
mod operation;

mod active;
mod blobs;
mod directory;
mod log;
mod mailbox;
mod snapshots;
mod timers;

mod compact;
mod database;
mod entries;
mod fault;
mod folder;
mod key;
mod letters;
mod piece;
mod storage;
mod table;

pub use compact::{Compacted, compact};
pub use engine::QUEUE_OPERATIONS_MAX;
pub use open::{CloseError, OpenError, RedbStore};
pub use options::Options;
pub use stats::Stats;
pub use storage::Source;
