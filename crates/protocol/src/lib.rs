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
//! corruption ([`DecodeError::Corrupt`]). Must never: panic or overflow the stack on any bytes.
#![warn(missing_docs)]

mod codec;
pub mod live;
pub mod mail;
pub mod record;
pub mod snapshot;

pub use codec::DecodeError;
