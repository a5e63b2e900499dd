//! Records: what one append commits.

use std::fmt;

use serde::{Deserialize, Serialize};
use steadfast_core::effect::Effect;
use steadfast_core::event::Event;
use steadfast_core::id::{CommandId, Epoch, Seq, Timestamp};

use crate::codec::{self, DecodeError};

/// Newest format version; see [`encode`] for what it writes.
const VERSION: u8 = 1;

/// BLAKE3 hash of a Record's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordHash(pub [u8; 32]);

impl RecordHash {
    /// The hash of an encoded Record.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Debug for RecordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", &blake3::Hash::from_bytes(self.0).to_hex()[..16])
    }
}

/// Entries that were appended together: whole or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Number of its first event.
    pub first_seq: Seq,
    /// Ownership generation of its writer.
    pub epoch: Epoch,
    /// Hash of the Record before it; all zero for the first.
    pub prev: RecordHash,
    /// One for each decision.
    pub entries: Vec<Entry>,
}

/// The facts of one decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What was decided about.
    pub cause: Cause,
    /// When.
    pub at: Timestamp,
    /// What followed.
    pub events: Vec<Event>,
}

/// What an entry was decided about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Cause {
    /// A take-over.
    Activate,
    /// A command.
    Command {
        /// Which.
        id: CommandId,
    },
    /// The outcome of an effect.
    Effect {
        /// Which.
        effect: Effect,
    },
    /// A deadline.
    Timer,
    /// The owner let go.
    Release,
}

impl Record {
    /// How many events it holds.
    pub fn events(&self) -> u64 {
        self.entries
            .iter()
            .map(|entry| entry.events.len() as u64)
            .sum()
    }

    /// Number of its last event.
    pub fn last_seq(&self) -> Seq {
        Seq((self.first_seq.0 + self.events()).saturating_sub(1))
    }
}

/// Bytes of a Record: the version, then MessagePack with named fields.
pub fn encode(record: &Record) -> Vec<u8> {
    codec::encode(VERSION, record)
}

/// Reads a Record of any known version.
pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    codec::decode("record", VERSION, bytes)
}
