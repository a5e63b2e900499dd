//! Receipts as they stand in a snapshot. A long session remembers ten thousand, nearly all of
//! messages whose turn is completed: those take a fixed few bytes each, so that opening the session
//! does not wait for them.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CommandHash, End, Progress, Receipt};
use crate::command::Digest;
use crate::event::Verdict;
use crate::id::{Seq, Timestamp, TurnId};

/// Numbers of a completed message, eight bytes each: hash, digest, time, turn, its end, shown.
const NUMBERS: usize = 7;
const ENTRY_BYTES: usize = NUMBERS * 8;

/// All receipts, oldest first.
#[derive(Serialize, Deserialize)]
pub(super) struct Flat {
    pub(super) horizon: Timestamp,
    /// Of completed messages.
    completed: Bytes,
    /// All others, each with its place among all.
    others: Vec<(u32, CommandHash, Receipt)>,
}

impl Flat {
    pub(super) fn of(
        horizon: Timestamp,
        entries: impl Iterator<Item = (CommandHash, Receipt)>,
    ) -> Self {
        let mut flat = Self {
            horizon,
            completed: Bytes(Vec::new()),
            others: Vec::new(),
        };
        for (place, (hash, receipt)) in (0..).zip(entries) {
            match numbers(hash, &receipt) {
                Some(numbers) => {
                    let bytes = numbers.iter().flat_map(|number| number.to_be_bytes());
                    flat.completed.0.extend(bytes);
                }
                None => flat.others.push((place, hash, receipt)),
            }
        }
        flat
    }

    /// The entries, or what is wrong with them.
    pub(super) fn entries(self) -> Result<Vec<(CommandHash, Receipt)>, &'static str> {
        let (completed, rest) = self.completed.0.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err("a receipt is cut off");
        }
        let mut entries = Vec::with_capacity(completed.len() + self.others.len());
        let mut completed = completed.iter().map(completed_receipt);
        for (place, hash, receipt) in self.others {
            while entries.len() < place as usize {
                entries.push(completed.next().ok_or("a receipt is missing")?);
            }
            if entries.len() != place as usize {
                return Err("two receipts have one place");
            }
            entries.push((hash, receipt));
        }
        entries.extend(completed);
        Ok(entries)
    }
}

/// The numbers of a completed message's receipt; `None` for any other.
fn numbers(hash: CommandHash, receipt: &Receipt) -> Option<[u64; NUMBERS]> {
    let Verdict::Accepted { turn } = receipt.verdict else {
        return None;
    };
    match (receipt.progress, receipt.shown) {
        (Some(Progress::Ended { turn: of, end, seq }), Some(shown))
            if of == turn && end == End::Completed =>
        {
            let Digest(digest) = receipt.digest;
            Some([
                hash.0,
                hash.1,
                digest,
                receipt.at.0,
                turn.0.0,
                seq.0,
                shown.0,
            ])
        }
        _ => None,
    }
}

fn completed_receipt(bytes: &[u8; ENTRY_BYTES]) -> (CommandHash, Receipt) {
    let (words, _) = bytes.as_chunks::<8>();
    let mut numbers = words.iter().map(|word| u64::from_be_bytes(*word));
    let mut next = || numbers.next().unwrap_or_default();
    let hash = CommandHash(next(), next());
    let digest = Digest(next());
    let at = Timestamp(next());
    let turn = TurnId(Seq(next()));
    let ended = Progress::Ended {
        turn,
        end: End::Completed,
        seq: Seq(next()),
    };
    let receipt = Receipt {
        digest,
        verdict: Verdict::Accepted { turn },
        at,
        progress: Some(ended),
        shown: Some(Seq(next())),
    };
    (hash, receipt)
}

/// Bytes that are written as such.
struct Bytes(Vec<u8>);

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

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(n: u64, progress: Option<Progress>) -> (CommandHash, Receipt) {
        let turn = TurnId(Seq(n));
        let receipt = Receipt {
            digest: Digest(n + 1),
            verdict: Verdict::Accepted { turn },
            at: Timestamp(n + 2),
            progress,
            shown: Some(Seq(n + 3)),
        };
        (CommandHash(n, n), receipt)
    }

    fn ended(n: u64, end: End) -> (CommandHash, Receipt) {
        let (turn, seq) = (TurnId(Seq(n)), Seq(n + 4));
        receipt(n, Some(Progress::Ended { turn, end, seq }))
    }

    fn mixed() -> Vec<(CommandHash, Receipt)> {
        vec![
            receipt(1, None),
            ended(2, End::Completed),
            ended(3, End::Failed),
            receipt(4, Some(Progress::Queued)),
            ended(5, End::Completed),
            ended(6, End::Completed),
        ]
    }

    #[test]
    fn receipts_come_back_in_their_order() {
        for entries in [Vec::new(), mixed()] {
            let flat = Flat::of(Timestamp(7), entries.iter().copied());
            let json = serde_json::to_string(&flat).unwrap();
            let back: Flat = serde_json::from_str(&json).unwrap();
            assert_eq!(back.horizon, Timestamp(7));
            assert_eq!(back.entries(), Ok(entries));
        }
    }

    #[test]
    fn receipts_that_do_not_fit_together_are_told() {
        let mut cut = Flat::of(Timestamp(0), mixed().into_iter());
        cut.completed.0.pop();
        assert_eq!(cut.entries(), Err("a receipt is cut off"));
        let mut missing = Flat::of(Timestamp(0), mixed().into_iter());
        missing.completed.0.truncate(0);
        assert_eq!(missing.entries(), Err("a receipt is missing"));
        let mut twice = Flat::of(Timestamp(0), mixed().into_iter());
        twice.others.iter_mut().for_each(|other| other.0 = 0);
        assert_eq!(twice.entries(), Err("two receipts have one place"));
    }
}
