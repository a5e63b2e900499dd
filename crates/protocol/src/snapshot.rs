//! Snapshots: a session's state after some Record, so that opening it does not read its whole log.
//! Disposable: a snapshot that cannot be read is ignored.

use serde::{Deserialize, Serialize};
use steadfast_core::session::Session;

use crate::codec::{DecodeError, EncodeError, Format};
use crate::record::RecordHash;

/// A snapshot, at most: a larger state is folded from its log instead.
pub const SNAPSHOT_BYTES_MAX: usize = 64 * 1024 * 1024;

const FORMAT: Format = Format {
    what: "snapshot",
    // Rises whenever the shape of `Session` changes: older snapshots are then ignored.
    version: 2,
    bytes_max: SNAPSHOT_BYTES_MAX,
};

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
pub fn encode(snapshot: &Snapshot) -> Result<Vec<u8>, EncodeError> {
    FORMAT.encode(snapshot)
}

/// Reads a snapshot of exactly the current version.
pub fn decode(bytes: &[u8]) -> Result<Snapshot, DecodeError> {
    if let Some(&found) = bytes.first()
        && found < FORMAT.version
    {
        return Err(FORMAT.corrupt(format!("old version {found}")));
    }
    FORMAT.decode(bytes)
}
