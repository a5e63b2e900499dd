//! What was answered to which command, kept small enough to be part of the state.

mod away;
mod block;
mod flat;
mod packed;

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::command::Digest;
use crate::event::{TurnOutcome, Verdict};
use crate::id::{CommandId, Seq, Timestamp, TurnId};
use crate::limits::{RECEIPTS_KEPT_MIN, RECEIPTS_KEPT_MS};
use flat::Flat;

pub use away::{Outline, ReceiptRun};
pub use block::Block;

/// Receipts of one block.
const BLOCK_RECEIPTS: usize = 128;

/// First 16 bytes of a command id's BLAKE3 hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommandHash(u64, u64);

impl CommandHash {
    /// The hash of this id.
    pub fn of(id: &CommandId) -> Self {
        let hash = blake3::hash(id.as_str().as_bytes());
        let mut halves = [[0; 8]; 2];
        halves[0].copy_from_slice(&hash.as_bytes()[..8]);
        halves[1].copy_from_slice(&hash.as_bytes()[8..16]);
        Self(u64::from_be_bytes(halves[0]), u64::from_be_bytes(halves[1]))
    }
}

/// The answer to one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Of which content.
    pub digest: Digest,
    /// The answer.
    pub verdict: Verdict,
    /// When it was given.
    pub at: Timestamp,
    /// Of a message: where it stands.
    pub progress: Option<Progress>,
    /// Of a message: the event from which on it is in the transcript.
    pub shown: Option<Seq>,
}

/// Where an accepted message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Progress {
    /// It waits.
    Queued,
    /// Its turn, or the one it joined, runs.
    Running {
        /// The turn.
        turn: TurnId,
    },
    /// It is over.
    Ended {
        /// The turn it was part of.
        turn: TurnId,
        /// How.
        end: End,
        /// Number of the `TurnEnded` event, which holds the error of a failed one.
        seq: Seq,
    },
}

/// How a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The model answered.
    Completed,
    /// It could not be done.
    Failed,
    /// Somebody ended or withdrew it.
    Cancelled,
    /// An edited message took its place.
    Superseded,
    /// It was to join one certain turn, which ended before.
    Rejected,
}

impl From<&TurnOutcome> for End {
    fn from(outcome: &TurnOutcome) -> Self {
        match outcome {
            TurnOutcome::Completed { .. } => Self::Completed,
            TurnOutcome::Failed { .. } => Self::Failed,
            TurnOutcome::Cancelled => Self::Cancelled,
            TurnOutcome::Superseded => Self::Superseded,
            TurnOutcome::Rejected => Self::Rejected,
        }
    }
}

/// All remembered receipts.
///
/// A long session remembers ten thousand and more. Nearly all are final: those are sealed, the
/// oldest first, in blocks that never change, so that opening and keeping a session does not take
/// longer with its age. Those that a snapshot has beside it may be away: then a command that
/// [may be among them](Self::may_be_away) cannot be decided about.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Receipts {
    /// Runs of blocks that are kept elsewhere, oldest first.
    away: Vector<Arc<ReceiptRun>>,
    /// Those after them, oldest first.
    blocks: Vector<Arc<Block>>,
    /// Blocks forgotten so far: the number of the first one that is kept.
    first_block: u64,
    /// Receipts in `away` and `blocks`.
    sealed: usize,
    /// Those that may change, and the newest. Each by itself: the map has room for many at once.
    recent: OrdMap<CommandHash, Arc<Receipt>>,
    /// The commands of `recent`.
    oldest_first: Vector<CommandHash>,
    /// Commands answered at or before this may have been forgotten.
    horizon: Timestamp,
}

impl Receipts {
    /// The answer to this command, if it is remembered here.
    pub fn get(&self, id: &CommandId) -> Option<Receipt> {
        let hash = CommandHash::of(id);
        let recent = self.recent.get(&hash).map(|receipt| **receipt);
        recent.or_else(|| self.blocks.iter().rev().find_map(|block| block.get(hash)))
    }

    /// Whether the answer to this command may be among those that are kept elsewhere.
    pub fn may_be_away(&self, id: &CommandId) -> bool {
        if self.away.is_empty() {
            return false;
        }
        let hash = CommandHash::of(id);
        self.away.iter().any(|run| run.may_hold(hash))
    }

    /// The runs that are kept elsewhere, oldest first.
    pub fn away(&self) -> &Vector<Arc<ReceiptRun>> {
        &self.away
    }

    /// Number of the first block that is kept, here or elsewhere.
    pub fn first_block(&self) -> u64 {
        self.first_block
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.sealed + self.recent.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Commands answered at or before this may have been forgotten; 0: none was.
    pub fn horizon(&self) -> Timestamp {
        self.horizon
    }

    /// The sealed blocks that are here, oldest first, each with its number, which is its own for
    /// ever.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &Arc<Block>)> {
        (self.first_here()..).zip(&self.blocks)
    }

    fn first_here(&self) -> u64 {
        let end = |run: &Arc<ReceiptRun>| {
            let blocks = run.outline.as_ref().map_or(0, |outline| outline.len());
            run.first_block.saturating_add(blocks as u64)
        };
        self.away.last().map_or(self.first_block, end)
    }

    /// The same without the blocks before this number, for whoever keeps those elsewhere.
    #[must_use]
    pub fn without_blocks_before(&self, number: u64) -> Self {
        let left_out = number.saturating_sub(self.first_here());
        let left_out = usize::try_from(left_out).unwrap_or(usize::MAX);
        let mut receipts = self.clone();
        receipts.blocks = self.blocks.skip(left_out.min(self.blocks.len()));
        receipts.away = Vector::new();
        receipts.count_sealed();
        receipts
    }

    fn count_sealed(&mut self) {
        let here: usize = self.blocks.iter().map(|block| block.len()).sum();
        let away = self.away.iter();
        let away = away.flat_map(|run| run.blocks_from(self.first_block));
        self.sealed = here + away.map(|(_, count)| count).sum::<usize>();
    }

    /// Notes that the blocks that were left out are in these runs, all of which have an outline.
    pub fn leave_away(&mut self, runs: impl IntoIterator<Item = ReceiptRun>) {
        self.away = runs.into_iter().map(Arc::new).collect();
        self.forget_runs();
        self.count_sealed();
    }

    /// Forgets runs of which no block is kept.
    fn forget_runs(&mut self) {
        while let Some(run) = self.away.front()
            && run.blocks_from(self.first_block).next().is_none()
        {
            self.away.pop_front();
        }
    }

    /// Puts back the blocks that were left out: all from the number of the first on. Blocks of lower
    /// numbers among them were forgotten since and are left away.
    pub fn put_back(&mut self, blocks: impl IntoIterator<Item = (u64, Arc<Block>)>) {
        let kept = blocks
            .into_iter()
            .filter(|(number, _)| *number >= self.first_block);
        let mut blocks: Vector<Arc<Block>> = kept.map(|(_, block)| block).collect();
        blocks.append(std::mem::take(&mut self.blocks));
        self.blocks = blocks;
        self.away = Vector::new();
        self.count_sealed();
    }

    /// Remembers an answer and forgets what is both too old and too many.
    pub(crate) fn insert(&mut self, id: &CommandId, receipt: Receipt) {
        let hash = CommandHash::of(id);
        let at = receipt.at;
        if self.recent.insert(hash, Arc::new(receipt)).is_none() {
            self.oldest_first.push_back(hash);
        }
        self.seal();
        self.forget(at);
    }

    /// Notes where a message stands.
    pub(crate) fn progress(&mut self, id: &CommandId, progress: Progress) {
        if let Some(receipt) = self.recent.get_mut(&CommandHash::of(id)) {
            Arc::make_mut(receipt).progress = Some(progress);
        }
    }

    /// Notes from which event on a message is in the transcript.
    pub(crate) fn shown(&mut self, id: &CommandId, seq: Seq) {
        if let Some(receipt) = self.recent.get_mut(&CommandHash::of(id)) {
            Arc::make_mut(receipt).shown = Some(seq);
        }
    }

    /// Seals the oldest receipts that are final, once there are two blocks of them.
    fn seal(&mut self) {
        let count = self.oldest_first.len();
        // Where most are open this looks in vain, so it does not look each time.
        if count < 2 * BLOCK_RECEIPTS || !count.is_multiple_of(BLOCK_RECEIPTS) {
            return;
        }
        let final_ones = self.oldest_first.iter().filter_map(|hash| {
            let receipt = self.recent.get(hash)?;
            receipt.is_final().then_some((*hash, **receipt))
        });
        let sealed: Vec<_> = final_ones.take(BLOCK_RECEIPTS).collect();
        if sealed.len() < BLOCK_RECEIPTS {
            return;
        }
        for (hash, _) in &sealed {
            self.recent.remove(hash);
        }
        let recent = &self.recent;
        self.oldest_first.retain(|hash| recent.contains_key(hash));
        self.sealed += sealed.len();
        self.blocks.push_back(Arc::new(Block::of(sealed)));
    }

    /// Forgets whole blocks. A message whose turn has not ended is in none.
    fn forget(&mut self, now: Timestamp) {
        while let Some((newest, count)) = self.oldest_block() {
            let too_many = self.len() - count >= RECEIPTS_KEPT_MIN;
            if !too_many || newest.plus_ms(RECEIPTS_KEPT_MS) > now {
                return;
            }
            self.horizon = self.horizon.max(newest);
            self.sealed -= count;
            if self.away.is_empty() {
                self.blocks.pop_front();
            }
            self.first_block += 1;
            self.forget_runs();
        }
    }

    /// When the newest receipt of the oldest block was given, and how many it has.
    fn oldest_block(&self) -> Option<(Timestamp, usize)> {
        match self.away.front() {
            Some(run) => run.blocks_from(self.first_block).next(),
            None => {
                let oldest = self.blocks.front()?;
                Some((oldest.newest(), oldest.len()))
            }
        }
    }
}

impl Receipt {
    /// Whether it never changes again.
    fn is_final(&self) -> bool {
        match self.progress {
            None | Some(Progress::Ended { .. }) => true,
            Some(Progress::Queued | Progress::Running { .. }) => false,
        }
    }
}

/// As they stand in a snapshot.
#[derive(Serialize, Deserialize)]
struct Kept {
    first_block: u64,
    blocks: Vector<Arc<Block>>,
    recent: Flat,
}

impl Serialize for Receipts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |hash: &CommandHash| Some((*hash, **self.recent.get(hash)?));
        let entries = self.oldest_first.iter().filter_map(entry);
        let kept = Kept {
            first_block: self.first_block,
            blocks: self.blocks.clone(),
            recent: Flat::of(self.horizon, entries),
        };
        kept.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Receipts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kept = Kept::deserialize(deserializer)?;
        let horizon = kept.recent.horizon;
        let mut entries = kept.recent.entries().map_err(D::Error::custom)?;
        let oldest_first = entries.iter().map(|(hash, _)| *hash).collect();
        // In their order they find their place at the end of the map, which is much faster.
        entries.sort_unstable_by_key(|(hash, _)| *hash);
        Ok(Self {
            away: Vector::new(),
            sealed: kept.blocks.iter().map(|block| block.len()).sum(),
            blocks: kept.blocks,
            first_block: kept.first_block,
            recent: entries
                .into_iter()
                .map(|(hash, receipt)| (hash, Arc::new(receipt)))
                .collect(),
            oldest_first,
            horizon,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> CommandId {
        CommandId::new(format!("m{number}")).unwrap()
    }

    fn accepted(number: usize) -> Receipt {
        Receipt {
            digest: Digest(number as u64),
            verdict: Verdict::Accepted {
                turn: TurnId(Seq(number as u64 + 1)),
            },
            at: Timestamp(number as u64),
            progress: Some(Progress::Queued),
            shown: None,
        }
    }

    fn ended(number: usize) -> Progress {
        Progress::Ended {
            turn: TurnId(Seq(number as u64 + 1)),
            end: End::Completed,
            seq: Seq(number as u64 + 2),
        }
    }

    /// Messages of which each ends before the next comes, but for these.
    fn messages(count: usize, open: &[usize]) -> Receipts {
        let mut receipts = Receipts::default();
        for number in 0..count {
            receipts.insert(&id(number), accepted(number));
            if !open.contains(&number) {
                receipts.progress(&id(number), ended(number));
            }
        }
        receipts
    }

    #[test]
    fn sealed_receipts_are_found_and_open_ones_still_change() {
        let mut receipts = messages(5 * BLOCK_RECEIPTS, &[3]);
        assert_eq!(receipts.len(), 5 * BLOCK_RECEIPTS);
        assert!(receipts.oldest_first.len() <= 2 * BLOCK_RECEIPTS);
        assert_eq!(receipts.get(&id(3)), Some(accepted(3)));
        receipts.progress(&id(3), ended(3));
        for number in 0..5 * BLOCK_RECEIPTS {
            let expected = Receipt {
                progress: Some(ended(number)),
                ..accepted(number)
            };
            assert_eq!(receipts.get(&id(number)), Some(expected), "{number}");
        }
        assert_eq!(receipts.get(&id(5 * BLOCK_RECEIPTS)), None);
    }

    #[test]
    fn receipts_come_back_with_blocks_that_were_kept_elsewhere() {
        let receipts = messages(6 * BLOCK_RECEIPTS, &[0]);
        let elsewhere: Vec<_> = receipts.blocks().take(3).collect();
        let elsewhere: Vec<_> = elsewhere
            .into_iter()
            .map(|(number, block)| (number, Arc::clone(block)))
            .collect();
        let short = receipts.without_blocks_before(3);
        let json = serde_json::to_string(&short).unwrap();
        assert!(json.len() < serde_json::to_string(&receipts).unwrap().len() * 2 / 3);
        let mut back: Receipts = serde_json::from_str(&json).unwrap();
        assert_eq!(back, short);
        back.put_back(elsewhere);
        assert_eq!(back, receipts);
    }

    /// As they are with their first blocks, two in each run, elsewhere; and those blocks.
    fn without(receipts: &Receipts, runs: usize) -> (Receipts, Vec<(u64, Arc<Block>)>) {
        let blocks: Vec<_> = receipts
            .blocks()
            .take(2 * runs)
            .map(|(number, block)| (number, Arc::clone(block)))
            .collect();
        let run = |run: &[(u64, Arc<Block>)]| {
            let blocks: Vec<_> = run.iter().map(|(_, block)| Arc::clone(block)).collect();
            ReceiptRun {
                first_block: run[0].0,
                blob: crate::content::BlobRef {
                    hash: crate::content::BlobHash([0; 32]),
                    size_bytes: 0,
                },
                outline: Some(Arc::new(Outline::of(&blocks))),
            }
        };
        let mut short = receipts.without_blocks_before(2 * runs as u64);
        short.leave_away(blocks.chunks(2).map(run));
        (short, blocks)
    }

    #[test]
    fn of_receipts_elsewhere_it_is_known_what_they_are_not() {
        let receipts = messages(7 * BLOCK_RECEIPTS, &[0]);
        let (mut short, elsewhere) = without(&receipts, 2);
        assert_eq!(short.len(), receipts.len());
        let sealed = 1..=4 * BLOCK_RECEIPTS;
        for number in 0..8 * BLOCK_RECEIPTS {
            let is_away = sealed.contains(&number);
            assert_eq!(short.may_be_away(&id(number)), is_away, "{number}");
            let here = receipts.get(&id(number)).filter(|_| !is_away);
            assert_eq!(short.get(&id(number)), here, "{number}");
        }
        short.put_back(elsewhere);
        assert_eq!(short, receipts);
    }

    #[test]
    fn receipts_elsewhere_are_forgotten_as_those_here_are() {
        let mut receipts = messages(RECEIPTS_KEPT_MIN + 6 * BLOCK_RECEIPTS, &[]);
        let (mut short, elsewhere) = without(&receipts, 3);
        for number in 0..4 {
            let at = RECEIPTS_KEPT_MS + BLOCK_RECEIPTS as u64 * number;
            let late = Receipt {
                at: Timestamp(at),
                ..accepted(0)
            };
            let id = CommandId::new(format!("late-{number}")).unwrap();
            receipts.insert(&id, late);
            short.insert(&id, late);
            assert_eq!(short.len(), receipts.len(), "{number}");
            assert_eq!(short.horizon(), receipts.horizon(), "{number}");
            assert_eq!(short.first_block(), receipts.first_block(), "{number}");
        }
        assert_eq!((short.first_block(), short.away().len()), (3, 2));
        short.put_back(elsewhere);
        assert_eq!(short, receipts);
    }

    #[test]
    fn an_outline_that_is_cut_off_is_refused() {
        let receipts = messages(4 * BLOCK_RECEIPTS, &[]);
        let (short, _) = without(&receipts, 1);
        let mut json = serde_json::to_value(&*short.away()[0]).unwrap();
        assert!(serde_json::from_value::<ReceiptRun>(json.clone()).is_ok());
        let beginnings = json["outline"]["beginnings"].as_array_mut().unwrap();
        beginnings.pop();
        assert!(serde_json::from_value::<ReceiptRun>(json).is_err());
    }

    #[test]
    fn blocks_are_forgotten_whole_and_never_before_their_time() {
        let mut receipts = messages(RECEIPTS_KEPT_MIN + 4 * BLOCK_RECEIPTS, &[]);
        let all = receipts.len();
        let late = |number: usize, after_ms: u64| Receipt {
            at: Timestamp(RECEIPTS_KEPT_MS + after_ms),
            ..accepted(number)
        };
        receipts.insert(&id(all), late(all, BLOCK_RECEIPTS as u64 - 2));
        assert_eq!(
            (receipts.len(), receipts.horizon()),
            (all + 1, Timestamp(0))
        );
        receipts.insert(&id(all + 1), late(all + 1, BLOCK_RECEIPTS as u64 - 1));
        let horizon = Timestamp(BLOCK_RECEIPTS as u64 - 1);
        assert_eq!(receipts.len(), all + 2 - BLOCK_RECEIPTS);
        assert_eq!(receipts.horizon(), horizon);
        assert_eq!(receipts.blocks().next().map(|(number, _)| number), Some(1));
        receipts.insert(&id(all + 2), late(all + 2, RECEIPTS_KEPT_MS));
        assert!(receipts.len() >= RECEIPTS_KEPT_MIN);
        assert!(receipts.len() < RECEIPTS_KEPT_MIN + BLOCK_RECEIPTS);
    }
}
