//! The store ports in one redb file, for one node.
//!
//! ```text
//!  ports ---- writes ---> queue (bounded) ---> writer thread ---> one value in the journal, one sync
//!    |                                           |     |                        |
//!    |                                           |     |                        v  in slices, sorted
//!    |                         view, replaced <--+     |                  a table for each port
//!    |                     whole by each commit        +---> news: followers, mail, timers
//!    +------- reads ----> a view, any thread: rows in memory above the tables of one moment
//! ```
//!
//! A commit costs by the pages that it touches, not by their bytes. So a group's rows, which belong
//! to many sessions, are first written side by side, into the journal, and stay in memory above the
//! tables. Later many groups' rows are moved at once in the order of their keys. A row that was
//! overwritten or removed by then never reaches its table. Large rows are not written twice: they go
//! to their table in their group's own transaction.
//!
//! Must: acknowledge what is promised as kept only after the disk has it; give an operation the
//! same outcome whatever shares its group; say `Unknown` only when nobody can know; let no other
//! process at the file. Must never: write after the file has failed; wait by polling; hold more
//! rows in memory than `Options::journal_bytes` allows.
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
mod journal;
mod key;
mod layer;
mod letters;
mod piece;
mod sight;
mod storage;
mod table;
mod view;

pub use compact::{Compacted, compact};
pub use engine::QUEUE_OPERATIONS_MAX;
pub use open::{CloseError, OpenError, RedbStore};
pub use options::Options;
pub use stats::Stats;
pub use storage::Source;
