//! Sealed receipts that are kept elsewhere, and what is known of them here: how many they are, how
//! old, and, but for a guess in a million, of which commands there is none among them.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::packed::Bytes;
use super::{Block, CommandHash};
use crate::content::BlobRef;
use crate::id::Timestamp;

/// Bytes of each hash that are kept.
const BEGINNING_BYTES: usize = 4;

/// A run of blocks that stands in a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRun {
    /// Number of its first block.
    pub first_block: u64,
    /// The run.
    pub blob: BlobRef,
    /// What is known of it without reading it; `None`: nothing, it was written by a release that
    /// always read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outline: Option<Arc<Outline>>,
}

/// What is known of a run without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outline {
    /// Of each block: when the newest of its receipts was given, and how many they are.
    blocks: Vec<(Timestamp, u32)>,
    /// The lowest hash of its last block, by which the run is recognised.
    mark: CommandHash,
    /// The first bytes of all hashes, in order.
    beginnings: Bytes,
}

impl ReceiptRun {
    /// Whether it may hold the receipt of such a command.
    pub(super) fn may_hold(&self, hash: CommandHash) -> bool {
        let outline = self.outline.as_ref();
        outline.is_none_or(|outline| outline.may_hold(hash))
    }

    /// Its blocks from this number on: when the newest receipt was given, and how many they are.
    pub(super) fn blocks_from(&self, number: u64) -> impl Iterator<Item = (Timestamp, usize)> {
        let blocks = self.outline.iter().flat_map(|outline| &outline.blocks);
        let numbered = (self.first_block..).zip(blocks);
        numbered
            .filter(move |(own, _)| *own >= number)
            .map(|(_, (newest, count))| (*newest, *count as usize))
    }
}

impl Outline {
    /// Of these blocks.
    pub fn of(blocks: &[Arc<Block>]) -> Self {
        let mut beginnings: Vec<_> = blocks
            .iter()
            .flat_map(|block| block.hashes())
            .map(beginning)
            .collect();
        beginnings.sort_unstable();
        let count = |block: &Arc<Block>| u32::try_from(block.len()).unwrap_or(u32::MAX);
        Self {
            blocks: blocks
                .iter()
                .map(|block| (block.newest(), count(block)))
                .collect(),
            mark: mark(blocks.last()),
            beginnings: Bytes(beginnings.concat()),
        }
    }

    /// Whether it is that of a run with this last block.
    pub fn ends_with(&self, last: &Arc<Block>) -> bool {
        self.mark == mark(Some(last))
    }

    /// How many blocks its run has.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether its run has no block.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    fn may_hold(&self, hash: CommandHash) -> bool {
        let (beginnings, _) = self.beginnings.0.as_chunks();
        beginnings.binary_search(&beginning(hash)).is_ok()
    }
}

fn beginning(hash: CommandHash) -> [u8; BEGINNING_BYTES] {
    let [a, b, c, d, ..] = hash.0.to_be_bytes();
    [a, b, c, d]
}

fn mark(block: Option<&Arc<Block>>) -> CommandHash {
    let lowest = block.and_then(|block| block.hashes().min());
    lowest.unwrap_or(CommandHash(0, 0))
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Kept {
            blocks: Vec<(Timestamp, u32)>,
            mark: CommandHash,
            beginnings: Bytes,
        }
        let Kept {
            blocks,
            mark,
            beginnings,
        } = Kept::deserialize(deserializer)?;
        let count: usize = blocks.iter().map(|(_, count)| *count as usize).sum();
        if beginnings.0.len() != count.saturating_mul(BEGINNING_BYTES) {
            return Err(D::Error::custom("an outline of receipts is cut off"));
        }
        Ok(Self {
            blocks,
            mark,
            beginnings,
        })
    }
}
