//! The chain of a session's Records: what makes a log readable as one history.
//!
//! ```text
//!   Link::START --verify--> (Record 1, Link) --verify--> (Record 2, Link) ...
//!   (log whose head was purged) --begin--> (tombstone, Link) --verify--> ...
//!   (what cannot be read, or does not join) --rejoin--> (repair, Link) --verify--> ...
//! ```

use steadfast_core::event::Event;
use steadfast_core::id::{Epoch, Seq};
use thiserror::Error;

use crate::codec::DecodeError;
use crate::record::{self, Record, RecordHash};
use crate::snapshot::Snapshot;

/// The end of a verified history: what the next Record must join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Hash of the last Record; the next one's `prev`.
    pub record: RecordHash,
    /// Number of its last event.
    pub last_seq: Seq,
    /// Ownership generation of its writer.
    pub epoch: Epoch,
}

impl Link {
    /// Before the first Record of a session.
    pub const START: Self = Self {
        record: RecordHash::NONE,
        last_seq: Seq(0),
        epoch: Epoch(0),
    };
}

impl From<&Snapshot> for Link {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            record: snapshot.last_record,
            last_seq: snapshot.session.seq,
            epoch: snapshot.session.epoch,
        }
    }
}

/// Why a Record does not continue a history. Apart from [`DecodeError::Version`], each means that
/// the log lost, changed or forked something: the session is quarantined.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChainError {
    /// The bytes are no Record, or one of a newer release.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The store's note beside the bytes names another first event than the bytes.
    #[error("the store says that the record begins with event {noted}, its bytes say {found}")]
    Mislabelled {
        /// Beside the bytes.
        noted: Seq,
        /// In the bytes.
        found: Seq,
    },
    /// Events are missing, or come twice.
    #[error("the next event is {expected}, the record begins with {found}")]
    Gap {
        /// What comes next.
        expected: Seq,
        /// What the Record begins with.
        found: Seq,
    },
    /// The Record follows another one than the one before it.
    #[error("the record that begins with event {first_seq} follows another record than the last")]
    Forked {
        /// Its first event.
        first_seq: Seq,
    },
    /// An owner wrote after it was replaced.
    #[error("the epoch fell from {last} to {found}")]
    EpochFell {
        /// Of the Record before.
        last: Epoch,
        /// Of this one.
        found: Epoch,
    },
    /// A commit of nothing, or numbers that run over.
    #[error("the record that begins with event {first_seq} holds no events that can be numbered")]
    Unnumbered {
        /// Its first event.
        first_seq: Seq,
    },
    /// The log begins in the middle, and not with a deletion: its head is lost.
    #[error("the log begins with event {first_seq}, which is not a deletion")]
    Beheaded {
        /// The first event that is left.
        first_seq: Seq,
    },
}

/// Reads the Record after `previous`. `first_seq` is what the store keeps beside the bytes.
pub fn verify(previous: &Link, bytes: &[u8], first_seq: Seq) -> Result<(Record, Link), ChainError> {
    let (record, link) = read(bytes, first_seq)?;
    let expected = previous.last_seq.next();
    if record.first_seq != expected {
        return Err(ChainError::Gap {
            expected,
            found: record.first_seq,
        });
    }
    if record.prev != previous.record {
        return Err(ChainError::Forked { first_seq });
    }
    if record.epoch < previous.epoch {
        return Err(ChainError::EpochFell {
            last: previous.epoch,
            found: record.epoch,
        });
    }
    Ok((record, link))
}

/// Reads the first Record that a log holds: the session's very first, or, in a log whose head was
/// purged, the one that deleted the session.
pub fn begin(bytes: &[u8], first_seq: Seq) -> Result<(Record, Link), ChainError> {
    if first_seq == Link::START.last_seq.next() {
        return verify(&Link::START, bytes, first_seq);
    }
    let (record, link) = read(bytes, first_seq)?;
    let deletes = record
        .entries
        .iter()
        .flat_map(|entry| &entry.events)
        .any(|event| matches!(event, Event::SessionDeleted));
    if deletes {
        Ok((record, link))
    } else {
        Err(ChainError::Beheaded { first_seq })
    }
}

/// Number of the last event that counts before this Record, if it repairs the log: what stands
/// between them is passed over.
pub fn repairs_after(record: &Record) -> Option<Seq> {
    match record.entries.first()?.events.first()? {
        Event::LogRepaired { after, .. } => Some(*after),
        _ => None,
    }
}

/// Reads the Record that repairs a log, after the last one that counts.
pub fn rejoin(previous: &Link, bytes: &[u8], first_seq: Seq) -> Result<(Record, Link), ChainError> {
    let (record, link) = read(bytes, first_seq)?;
    let is_the_repair = repairs_after(&record) == Some(previous.last_seq);
    if !is_the_repair || record.prev != previous.record || record.first_seq <= previous.last_seq {
        return Err(ChainError::Forked { first_seq });
    }
    if record.epoch <= previous.epoch {
        return Err(ChainError::EpochFell {
            last: previous.epoch,
            found: record.epoch,
        });
    }
    Ok((record, link))
}

fn read(bytes: &[u8], noted: Seq) -> Result<(Record, Link), ChainError> {
    let record = record::decode(bytes)?;
    let found = record.first_seq;
    if found != noted {
        return Err(ChainError::Mislabelled { noted, found });
    }
    let unnumbered = ChainError::Unnumbered { first_seq: found };
    let events = record.events();
    if events == 0 || found == Seq(0) {
        return Err(unnumbered);
    }
    let last_seq = found.0.checked_add(events - 1).ok_or(unnumbered)?;
    let link = Link {
        record: RecordHash::of(bytes),
        last_seq: Seq(last_seq),
        epoch: record.epoch,
    };
    Ok((record, link))
}
