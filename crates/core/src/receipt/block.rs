//! A run of receipts that never change again, found by hash without taking them apart.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::packed::{self, Bytes};
use super::{CommandHash, Receipt};
use crate::id::Timestamp;

/// A run of final receipts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Block {
    /// When the newest of them was given.
    newest: Timestamp,
    /// In the order of their hashes.
    packed: Bytes,
    /// Those few that are not packed, in the order of their hashes.
    others: Vec<(CommandHash, Receipt)>,
}

impl Block {
    pub(super) fn of(mut receipts: Vec<(CommandHash, Receipt)>) -> Self {
        receipts.sort_unstable_by_key(|(hash, _)| *hash);
        let newest = receipts.iter().map(|(_, receipt)| receipt.at).max();
        let mut block = Self {
            newest: newest.unwrap_or_default(),
            packed: Bytes::default(),
            others: Vec::new(),
        };
        for (hash, receipt) in receipts {
            match packed::pack(hash, &receipt) {
                Some(bytes) => block.packed.0.extend(bytes),
                None => block.others.push((hash, receipt)),
            }
        }
        block
    }

    pub(super) fn get(&self, hash: CommandHash) -> Option<Receipt> {
        let (packed, _) = self.packed.entries();
        if let Ok(place) = packed.binary_search_by_key(&hash, packed::hash) {
            let (_, receipt) = packed.get(place).and_then(packed::unpack)?;
            return Some(receipt);
        }
        let place = self.others.binary_search_by_key(&hash, |(hash, _)| *hash);
        self.others.get(place.ok()?).map(|(_, receipt)| *receipt)
    }

    /// Of all its receipts.
    pub(super) fn hashes(&self) -> impl Iterator<Item = CommandHash> {
        let (packed, _) = self.packed.entries();
        let others = self.others.iter().map(|(hash, _)| *hash);
        packed.iter().map(packed::hash).chain(others)
    }

    pub(super) fn len(&self) -> usize {
        let (packed, _) = self.packed.entries();
        packed.len() + self.others.len()
    }

    pub(super) fn newest(&self) -> Timestamp {
        self.newest
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Kept {
            newest: Timestamp,
            packed: Bytes,
            others: Vec<(CommandHash, Receipt)>,
        }
        let Kept {
            newest,
            packed,
            others,
        } = Kept::deserialize(deserializer)?;
        let (_, rest) = packed.entries();
        if !rest.is_empty() {
            return Err(D::Error::custom("a receipt is cut off"));
        }
        Ok(Self {
            newest,
            packed,
            others,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{End, Progress};
    use super::*;
    use crate::command::Digest;
    use crate::event::{Rejection, Verdict};
    use crate::id::{Seq, TurnId};

    fn receipts() -> Vec<(CommandHash, Receipt)> {
        let turn = TurnId(Seq(7));
        let ends = [
            End::Completed,
            End::Failed,
            End::Cancelled,
            End::Superseded,
            End::Rejected,
        ];
        let seq = Seq(9);
        let mut answers: Vec<_> = ends
            .into_iter()
            .flat_map(|end| [turn, TurnId(Seq(8))].map(|of| Progress::Ended { turn: of, end, seq }))
            .flat_map(|ended| [None, Some(Seq(8))].map(|shown| (Some(ended), shown)))
            .map(|(ended, shown)| (Verdict::Accepted { turn }, ended, shown))
            .collect();
        let reason = Rejection::QueueFull;
        answers.push((Verdict::Done, None, None));
        answers.push((Verdict::Rejected { reason }, None, None));
        (0..)
            .zip(answers)
            .map(|(number, (verdict, progress, shown))| {
                let receipt = Receipt {
                    digest: Digest(number),
                    verdict,
                    at: Timestamp(100 - number),
                    progress,
                    shown,
                };
                (CommandHash(number ^ 5, number), receipt)
            })
            .collect()
    }

    #[test]
    fn each_receipt_is_found_as_it_was_given() {
        let block = Block::of(receipts());
        let json = serde_json::to_string(&block).unwrap();
        let back: Block = serde_json::from_str(&json).unwrap();
        assert_eq!(back, block);
        assert_eq!((back.len(), back.newest()), (22, Timestamp(100)));
        for (hash, receipt) in receipts() {
            assert_eq!(back.get(hash), Some(receipt));
        }
        assert_eq!(back.get(CommandHash(0, 0)), None);
    }

    #[test]
    fn a_block_that_is_cut_off_is_refused() {
        let mut block = Block::of(receipts());
        block.packed.0.pop();
        let json = serde_json::to_string(&block).unwrap();
        assert!(serde_json::from_str::<Block>(&json).is_err());
    }
}
