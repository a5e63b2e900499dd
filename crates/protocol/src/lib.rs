//! What bytes mean: records, mail, live frames and snapshots, their versions and their hash chain.
//!
//! ```text
//!  Record { first_seq, epoch, prev, entries: [ { cause, at, events } ] }   one append
//!    |  encode: version byte, then MessagePack with named fields
//!    v
//!  bytes --hash--> the next Record's `prev`
//! ```
//!
//! Must: decode every version ever written; tell a newer version ([`DecodeError::Version`]) from
//! corruption ([`DecodeError::Corrupt`]). Must never: panic, overflow the stack or allocate more
//! than a fixed multiple of a stated size on any bytes; write what it would not read back.
//!
//! Events are only ever added to: a new kind or field raises the version of Records, so that a node
//! of the release before leaves the session to others instead of calling it corrupt.
#![warn(missing_docs)]

pub mod chain;
mod codec;
pub mod door;
pub mod live;
pub mod mail;
pub mod record;
pub mod snapshot;
mod structure;
pub mod tool;

pub use codec::{DecodeError, EncodeError, encoded_bytes};
