//! Snapshots: a session's state after some Record, so that opening it does not read its whole log.
//! Disposable: a snapshot that cannot be read is ignored.
//!
//! What grows with a session's age stands beside its snapshot, in blobs that never change and are
//! written once: older transcript items, and sealed receipts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steadfast_core::content::BlobRef;
use steadfast_core::receipt::Block;
use steadfast_core::session::Session;

use crate::codec::{DecodeError, EncodeError, Format};
use crate::record::RecordHash;

/// A snapshot, at most: a larger state is folded from its log instead.
pub const SNAPSHOT_BYTES_MAX: usize = 64 * 1024 * 1024;

const FORMAT: Format = Format {
    what: "snapshot",
    // Rises whenever the shape of `Session` changes: older snapshots are then ignored.
    version: 5,
    bytes_max: SNAPSHOT_BYTES_MAX,
};

const RECEIPTS_FORMAT: Format = Format {
    what: "run of receipts",
    version: 1,
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
    /// Sealed receipts that `session` leaves out, oldest first.
    pub receipts: Vec<ReceiptRun>,
}

/// Sealed receipts beside a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRun {
    /// Number of its first block.
    pub first_block: u64,
    /// The run.
    pub blob: BlobRef,
}

/// Bytes of a run of sealed receipts.
pub fn encode_receipts(blocks: &[Arc<Block>]) -> Result<Vec<u8>, EncodeError> {
    RECEIPTS_FORMAT.encode(&blocks)
}

/// Reads a run of sealed receipts.
pub fn decode_receipts(bytes: &[u8]) -> Result<Vec<Arc<Block>>, DecodeError> {
    RECEIPTS_FORMAT.decode(bytes)
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
