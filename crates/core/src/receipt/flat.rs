//! The newest receipts as they stand in a snapshot: those that are final take a fixed few bytes
//! each.

use serde::{Deserialize, Serialize};

use super::packed::{self, Bytes};
use super::{CommandHash, Receipt};
use crate::id::Timestamp;

/// All receipts, oldest first.
#[derive(Serialize, Deserialize)]
pub(super) struct Flat {
    pub(super) horizon: Timestamp,
    /// Those that are packed.
    packed: Bytes,
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
            packed: Bytes::default(),
            others: Vec::new(),
        };
        for (place, (hash, receipt)) in (0..).zip(entries) {
            match packed::pack(hash, &receipt) {
                Some(bytes) => flat.packed.0.extend(bytes),
                None => flat.others.push((place, hash, receipt)),
            }
        }
        flat
    }

    /// The entries, or what is wrong with them.
    pub(super) fn entries(self) -> Result<Vec<(CommandHash, Receipt)>, &'static str> {
        let (packed, rest) = self.packed.entries();
        if !rest.is_empty() {
            return Err("a receipt is cut off");
        }
        let mut entries = Vec::with_capacity(packed.len() + self.others.len());
        let mut packed = packed.iter();
        let mut next = || {
            let bytes = packed.next().ok_or("a receipt is missing")?;
            packed::unpack(bytes).ok_or("a receipt says nothing")
        };
        for (place, hash, receipt) in self.others {
            while entries.len() < place as usize {
                entries.push(next()?);
            }
            if entries.len() != place as usize {
                return Err("two receipts have one place");
            }
            entries.push((hash, receipt));
        }
        for bytes in packed {
            entries.push(packed::unpack(bytes).ok_or("a receipt says nothing")?);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{End, Progress};
    use super::*;
    use crate::command::Digest;
    use crate::event::Verdict;
    use crate::id::{Seq, TurnId};

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
        cut.packed.0.pop();
        assert_eq!(cut.entries(), Err("a receipt is cut off"));
        let mut missing = Flat::of(Timestamp(0), mixed().into_iter());
        missing.packed.0.truncate(0);
        assert_eq!(missing.entries(), Err("a receipt is missing"));
        let mut twice = Flat::of(Timestamp(0), mixed().into_iter());
        twice.others.iter_mut().for_each(|other| other.0 = 0);
        assert_eq!(twice.entries(), Err("two receipts have one place"));
    }
}
