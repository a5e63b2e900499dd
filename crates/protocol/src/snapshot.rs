//! Snapshots: a session's state after some Record, so that opening it does not read its whole log.
//! Disposable: a snapshot that cannot be read is ignored.
//!
//! What grows with a session's age stands beside its snapshot, in blobs that never change and are
//! written once: older transcript items, and sealed receipts. The runs of items, of which a long
//! session has many, are written in a list of their own, which is read faster than items are.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steadfast_core::command::PackedItems;
use steadfast_core::id::Seq;
use steadfast_core::receipt::{Block, ReceiptRun};
use steadfast_core::session::Session;
use steadfast_core::transcript::{Item, ItemBody};

use crate::codec::{DecodeError, EncodeError, Format};
use crate::record::RecordHash;

/// A snapshot, at most: a larger state is folded from its log instead.
pub const SNAPSHOT_BYTES_MAX: usize = 64 * 1024 * 1024;

const FORMAT: Format = Format {
    what: "snapshot",
    // Rises whenever the shape of `Session` changes.
    version: 6,
    bytes_max: SNAPSHOT_BYTES_MAX,
};

const RECEIPTS_FORMAT: Format = Format {
    what: "run of receipts",
    version: 1,
    bytes_max: SNAPSHOT_BYTES_MAX,
};

/// A state and where in the log it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Written", from = "Written")]
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

/// Bytes of a run of sealed receipts.
pub fn encode_receipts(blocks: &[Arc<Block>]) -> Result<Vec<u8>, EncodeError> {
    RECEIPTS_FORMAT.encode(&blocks)
}

/// Reads a run of sealed receipts.
pub fn decode_receipts(bytes: &[u8]) -> Result<Vec<Arc<Block>>, DecodeError> {
    RECEIPTS_FORMAT.decode(bytes)
}

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    session: Session,
    last_record: RecordHash,
    tail: u64,
    receipts: Vec<ReceiptRun>,
    /// Runs of items that stand before those in `session`.
    #[serde(default)]
    packed: Vec<PackedRun>,
}

#[derive(Serialize, Deserialize)]
struct PackedRun {
    seq: Seq,
    tokens: u64,
    run: PackedItems,
}

impl From<Snapshot> for Written {
    fn from(snapshot: Snapshot) -> Self {
        let mut session = snapshot.session;
        let items = &mut session.transcript.items;
        let mut packed = Vec::new();
        while let Some(item) = items.front()
            && let ItemBody::Packed { packed: run } = &item.body
        {
            packed.push(PackedRun {
                seq: item.seq,
                tokens: item.tokens,
                run: run.clone(),
            });
            items.pop_front();
        }
        Self {
            session,
            last_record: snapshot.last_record,
            tail: snapshot.tail,
            receipts: snapshot.receipts,
            packed,
        }
    }
}

impl From<Written> for Snapshot {
    fn from(written: Written) -> Self {
        let mut session = written.session;
        for PackedRun { seq, tokens, run } in written.packed.into_iter().rev() {
            let body = ItemBody::Packed { packed: run };
            let item = Item { seq, tokens, body };
            session.transcript.items.push_front(Arc::new(item));
        }
        Self {
            session,
            last_record: written.last_record,
            tail: written.tail,
            receipts: written.receipts,
        }
    }
}

/// Bytes of a snapshot.
pub fn encode(snapshot: &Snapshot) -> Result<Vec<u8>, EncodeError> {
    FORMAT.encode(snapshot)
}

/// The oldest version that is read: what was added since may be absent. Older ones are ignored.
const OLDEST_VERSION: u8 = 5;

/// Reads a snapshot.
pub fn decode(bytes: &[u8]) -> Result<Snapshot, DecodeError> {
    if let Some(&found) = bytes.first()
        && found < OLDEST_VERSION
    {
        return Err(FORMAT.corrupt(format!("old version {found}")));
    }
    FORMAT.decode(bytes)
}
