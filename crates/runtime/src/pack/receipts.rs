//! Runs of sealed receipts as blobs, so that a snapshot's size does not grow with the session's age.
//!
//! A run never changes: the next snapshot names the same blobs again and writes only new ones.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::SessionKey;
use steadfast_core::receipt::{Block, Receipts};
use steadfast_protocol::EncodeError;
use steadfast_protocol::snapshot::{self, ReceiptRun};
use steadfast_store::Stores;

/// Blocks of one run.
const RUN_BLOCKS: usize = 8;

/// The runs that stand as blobs, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ReceiptRuns {
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Run {
    name: ReceiptRun,
    /// Its last block, by which it is recognised: a session that was deleted counts anew.
    last: Arc<Block>,
}

/// Receipts without those that stand in runs.
pub(crate) struct PackedReceipts {
    pub(crate) receipts: Receipts,
    pub(crate) runs: Vec<ReceiptRun>,
    /// Runs that must be written first.
    pub(crate) blobs: Vec<Bytes>,
}

impl ReceiptRuns {
    /// Packs all full runs.
    pub(crate) fn pack(&mut self, receipts: &Receipts) -> Result<PackedReceipts, EncodeError> {
        let blocks: Vec<(u64, &Arc<Block>)> = receipts.blocks().collect();
        let first_kept = blocks.first().map_or(0, |(number, _)| *number);
        self.runs.retain(|run| run.end() > first_kept);
        let mut rest = blocks.as_slice();
        let known = self.runs.iter().take_while(|run| run.take_from(&mut rest));
        let known = known.count();
        self.runs.truncate(known);
        let mut blobs = Vec::new();
        while let Some((run, later)) = rest.split_at_checked(RUN_BLOCKS)
            && let (Some((first, _)), Some((_, last))) = (run.first(), run.last())
        {
            let held: Vec<Arc<Block>> = run.iter().map(|(_, block)| Arc::clone(block)).collect();
            let bytes = snapshot::encode_receipts(&held)?;
            let blob = BlobRef {
                hash: BlobHash::of(&bytes),
                size_bytes: bytes.len() as u64,
            };
            let name = ReceiptRun {
                first_block: *first,
                blob,
            };
            let last = Arc::clone(last);
            self.runs.push(Run { name, last });
            blobs.push(Bytes::from(bytes));
            rest = later;
        }
        let end = self.runs.last().map_or(first_kept, Run::end);
        Ok(PackedReceipts {
            receipts: receipts.without_blocks_before(end),
            runs: self.runs.iter().map(|run| run.name).collect(),
            blobs,
        })
    }
}

impl Run {
    /// Number of the block after it.
    fn end(&self) -> u64 {
        self.name.first_block.saturating_add(RUN_BLOCKS as u64)
    }

    /// Takes this run's blocks from the front, if exactly they stand there.
    fn take_from(&self, rest: &mut &[(u64, &Arc<Block>)]) -> bool {
        let Some((first, _)) = rest.first() else {
            return false;
        };
        // Its oldest blocks may be forgotten by now.
        let left = usize::try_from(self.end().saturating_sub(*first)).unwrap_or(usize::MAX);
        let Some((mine, later)) = rest.split_at_checked(left) else {
            return false;
        };
        let last = mine.last().map(|(_, block)| *block);
        let same = last.is_some_and(|last| Arc::ptr_eq(last, &self.last) || *last == self.last);
        if same {
            *rest = later;
        }
        same
    }
}

/// Brings the receipts back that stand in runs. Says what is missing otherwise.
pub(crate) async fn put_back(
    receipts: &mut Receipts,
    runs: &[ReceiptRun],
    key: &SessionKey,
    stores: &Stores,
) -> Result<ReceiptRuns, String> {
    let loaded = try_join_all(runs.iter().map(|run| load(run, key, stores))).await?;
    let mut known = Vec::with_capacity(runs.len());
    let mut blocks = Vec::with_capacity(runs.len() * RUN_BLOCKS);
    for (name, held) in runs.iter().zip(loaded) {
        let last = held.last().filter(|_| held.len() == RUN_BLOCKS);
        let last = last.ok_or_else(|| format!("blob {} holds another run", name.blob.hash))?;
        known.push(Run {
            name: *name,
            last: Arc::clone(last),
        });
        blocks.extend((name.first_block..).zip(held));
    }
    receipts.put_back(blocks);
    Ok(ReceiptRuns { runs: known })
}

async fn load(
    run: &ReceiptRun,
    key: &SessionKey,
    stores: &Stores,
) -> Result<Vec<Arc<Block>>, String> {
    let hash = run.blob.hash;
    let bytes = stores.blobs.get(key, hash).await;
    let bytes = bytes.map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("blob {hash} is gone"))?;
    snapshot::decode_receipts(&bytes).map_err(|error| error.to_string())
}
