//! Records: what one append commits.

use std::fmt;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steadfast_core::effect::Effect;
use steadfast_core::event::Event;
use steadfast_core::id::{CommandId, Epoch, Seq, Timestamp};

use crate::codec::{DecodeError, EncodeError, Format};

/// A Record that is read, at most. Writers keep to [`steadfast_core::limits::RECORD_BYTES_MAX`];
/// reading grants more, so that a miscount of a writer never makes a session unreadable.
pub const READ_BYTES_MAX: usize = 4 * steadfast_core::limits::RECORD_BYTES_MAX;

const FORMAT: Format = Format {
    what: "record",
    version: 1,
    bytes_max: READ_BYTES_MAX,
};

/// BLAKE3 hash of a Record's bytes: 32 bytes in a Record, 64 hexadecimal digits in JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordHash(pub [u8; 32]);

impl RecordHash {
    /// Stands where there is no Record.
    pub const NONE: Self = Self([0; 32]);

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

impl fmt::Display for RecordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl Serialize for RecordHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for RecordHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            let hash = blake3::Hash::from_hex(text).map_err(D::Error::custom)?;
            return Ok(Self(*hash.as_bytes()));
        }
        deserializer.deserialize_bytes(HashBytes)
    }
}

struct HashBytes;

impl Visitor<'_> for HashBytes {
    type Value = RecordHash;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("32 bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<RecordHash, E> {
        let hash = bytes
            .try_into()
            .map_err(|_| E::invalid_length(bytes.len(), &self))?;
        Ok(RecordHash(hash))
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
        let after = self.first_seq.0.saturating_add(self.events());
        Seq(after.saturating_sub(1))
    }
}

/// Bytes of a Record: the version, then MessagePack with named fields.
pub fn encode(record: &Record) -> Result<Vec<u8>, EncodeError> {
    FORMAT.encode(record)
}

/// Reads a Record of any known version.
pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    FORMAT.decode(bytes)
}
