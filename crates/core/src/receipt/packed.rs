//! A final receipt in a fixed few bytes.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CommandHash, End, Progress, Receipt};
use crate::command::Digest;
use crate::event::Verdict;
use crate::id::{Seq, Timestamp, TurnId};

/// Numbers of a receipt, eight bytes each: hash, digest, time, turn, its end, shown.
const NUMBERS: usize = 7;
pub(super) const ENTRY_BYTES: usize = NUMBERS * 8;
/// How a message ended stands in the first byte of the number of its end.
const END_SHIFT: u32 = 56;

/// The bytes of a receipt; `None` for those few that do not fit.
pub(super) fn pack(hash: CommandHash, receipt: &Receipt) -> Option<[u8; ENTRY_BYTES]> {
    let (turn, end, shown) = match (receipt.verdict, receipt.progress, receipt.shown) {
        // No turn has the number 0.
        (Verdict::Done, None, None) => (0, 0, 0),
        (Verdict::Accepted { turn }, Some(Progress::Ended { turn: of, end, seq }), shown)
            if of == turn && seq.0 >> END_SHIFT == 0 =>
        {
            let end = code(end) << END_SHIFT | seq.0;
            (turn.0.0, end, shown.map_or(0, |shown| shown.0))
        }
        _ => return None,
    };
    let Digest(digest) = receipt.digest;
    let numbers: [u64; NUMBERS] = [hash.0, hash.1, digest, receipt.at.0, turn, end, shown];
    let mut bytes = [0; ENTRY_BYTES];
    for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *place = number.to_be_bytes();
    }
    Some(bytes)
}

/// Whose receipt this is.
pub(super) fn hash(bytes: &[u8; ENTRY_BYTES]) -> CommandHash {
    let mut numbers = numbers(bytes);
    let mut next = || numbers.next().unwrap_or_default();
    CommandHash(next(), next())
}

/// The receipt in these bytes; `None`: they were never written.
pub(super) fn unpack(bytes: &[u8; ENTRY_BYTES]) -> Option<(CommandHash, Receipt)> {
    let mut numbers = numbers(bytes);
    let mut next = || numbers.next().unwrap_or_default();
    let hash = CommandHash(next(), next());
    let (digest, at) = (Digest(next()), Timestamp(next()));
    let (turn, end, shown) = (TurnId(Seq(next())), next(), Seq(next()));
    let (verdict, progress) = if turn == TurnId(Seq(0)) {
        (Verdict::Done, None)
    } else {
        let seq = Seq(end & ((1 << END_SHIFT) - 1));
        let end = end_of(end >> END_SHIFT)?;
        let ended = Progress::Ended { turn, end, seq };
        (Verdict::Accepted { turn }, Some(ended))
    };
    let receipt = Receipt {
        digest,
        verdict,
        at,
        progress,
        shown: (shown != Seq(0)).then_some(shown),
    };
    Some((hash, receipt))
}

fn numbers(bytes: &[u8; ENTRY_BYTES]) -> impl Iterator<Item = u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_be_bytes(*word))
}

fn code(end: End) -> u64 {
    match end {
        End::Completed => 1,
        End::Failed => 2,
        End::Cancelled => 3,
        End::Superseded => 4,
        End::Rejected => 5,
    }
}

fn end_of(code: u64) -> Option<End> {
    Some(match code {
        1 => End::Completed,
        2 => End::Failed,
        3 => End::Cancelled,
        4 => End::Superseded,
        5 => End::Rejected,
        _ => return None,
    })
}

/// Packed receipts, written as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    /// The receipts, and what is left if they are cut off.
    pub(super) fn entries(&self) -> (&[[u8; ENTRY_BYTES]], &[u8]) {
        self.0.as_chunks()
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
        Ok(Bytes(bytes.to_vec()))
    }

    /// Formats for people write them as a list of numbers.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bytes, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(Bytes(bytes))
    }
}
