//! Snapshots: a session's state after some Record, so that opening it does not read its whole log.
//! Disposable: a snapshot that cannot be read is ignored.

use serde::{Deserialize, Serialize};
use steadfast_core::session::Session;

use crate::codec::{self, DecodeError};
use crate::record::RecordHash;

/// Rises whenever the shape of [`Session`] changes: older snapshots are then ignored.
const VERSION: u8 = 1;

/// A state and where in the log it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The fold of the log up to and including `session.seq`.
    pub session: Session,
    /// Hash of the last Record folded; the next one's `prev`.
    pub last_record: RecordHash,
    /// The log's opaque token after that Record.
    pub tail: u64,
}

/// Bytes of a snapshot.
pub fn encode(snapshot: &Snapshot) -> Vec<u8> {
    codec::encode(VERSION, snapshot)
}

/// Reads a snapshot of exactly the current version.
pub fn decode(bytes: &[u8]) -> Result<Snapshot, DecodeError> {
    if let Some(&found) = bytes.first()
        && found < VERSION
    {
        return Err(DecodeError::Corrupt {
            what: "snapshot",
            detail: format!("old version {found}"),
        });
    }
    codec::decode("snapshot", VERSION, bytes)
}
