//! What was answered to which command, kept small enough to be part of the state.

mod flat;

use imbl::{OrdMap, Vector};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::command::Digest;
use crate::event::{TurnOutcome, Verdict};
use crate::id::{CommandId, Seq, Timestamp, TurnId};
use crate::limits::{RECEIPTS_KEPT_MIN, RECEIPTS_KEPT_MS};
use flat::Flat;

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

/// All remembered receipts; serialised as one run of entries, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Receipts {
    by_command: OrdMap<CommandHash, Receipt>,
    oldest_first: Vector<CommandHash>,
    /// Commands answered at or before this may have been forgotten.
    horizon: Timestamp,
}

impl Receipts {
    /// The answer to this command, if it is remembered.
    pub fn get(&self, id: &CommandId) -> Option<&Receipt> {
        self.by_command.get(&CommandHash::of(id))
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.oldest_first.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.oldest_first.is_empty()
    }

    /// Commands answered at or before this may have been forgotten; 0: none was.
    pub fn horizon(&self) -> Timestamp {
        self.horizon
    }

    /// Remembers an answer and forgets what is both too old and too many.
    pub(crate) fn insert(&mut self, id: &CommandId, receipt: Receipt) {
        let hash = CommandHash::of(id);
        let at = receipt.at;
        if self.by_command.insert(hash, receipt).is_none() {
            self.oldest_first.push_back(hash);
        }
        self.prune(at);
    }

    /// Notes where a message stands.
    pub(crate) fn progress(&mut self, id: &CommandId, progress: Progress) {
        if let Some(receipt) = self.by_command.get_mut(&CommandHash::of(id)) {
            receipt.progress = Some(progress);
        }
    }

    /// Notes from which event on a message is in the transcript.
    pub(crate) fn shown(&mut self, id: &CommandId, seq: Seq) {
        if let Some(receipt) = self.by_command.get_mut(&CommandHash::of(id)) {
            receipt.shown = Some(seq);
        }
    }

    fn prune(&mut self, now: Timestamp) {
        while self.oldest_first.len() > RECEIPTS_KEPT_MIN {
            let Some(oldest) = self.oldest_first.front() else {
                return;
            };
            let Some(receipt) = self.by_command.get(oldest) else {
                return;
            };
            // A message whose turn has not ended is never forgotten.
            let open = matches!(
                receipt.progress,
                Some(Progress::Queued | Progress::Running { .. })
            );
            if open || receipt.at.plus_ms(RECEIPTS_KEPT_MS) > now {
                return;
            }
            self.horizon = self.horizon.max(receipt.at);
            self.by_command.remove(&oldest.clone());
            self.oldest_first.pop_front();
        }
    }
}

impl Serialize for Receipts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |hash: &CommandHash| Some((*hash, *self.by_command.get(hash)?));
        let entries = self.oldest_first.iter().filter_map(entry);
        Flat::of(self.horizon, entries).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Receipts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let flat = Flat::deserialize(deserializer)?;
        let horizon = flat.horizon;
        let mut entries = flat.entries().map_err(D::Error::custom)?;
        let oldest_first = entries.iter().map(|(hash, _)| *hash).collect();
        // In their order they find their place at the end of the map, which is much faster.
        entries.sort_unstable_by_key(|(hash, _)| *hash);
        Ok(Self {
            by_command: entries.into_iter().collect(),
            oldest_first,
            horizon,
        })
    }
}
