//! Runs of sealed receipts as blobs, so that a snapshot's size does not grow with the session's age.
//!
//! A run never changes: the next snapshot names the same blobs again and writes only new ones.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::SessionKey;
use steadfast_core::receipt::{Block, Outline, ReceiptRun, Receipts};
use steadfast_protocol::EncodeError;
use steadfast_protocol::snapshot;
use steadfast_store::Stores;
use steadfast_store::error::ReadError;
use thiserror::Error;

/// Blocks of one run.
const RUN_BLOCKS: usize = 8;

/// The runs that stand as blobs, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ReceiptRuns {
    runs: Vec<ReceiptRun>,
}

/// Receipts without those that stand in runs.
pub(crate) struct PackedReceipts {
    pub(crate) receipts: Receipts,
    pub(crate) runs: Vec<ReceiptRun>,
    /// Runs that must be written first.
    pub(crate) blobs: Vec<Bytes>,
}

impl ReceiptRuns {
    /// Those that a snapshot names.
    pub(crate) fn of(runs: Vec<ReceiptRun>) -> Self {
        Self { runs }
    }

    /// Packs all full runs.
    pub(crate) fn pack(&mut self, receipts: &Receipts) -> Result<PackedReceipts, EncodeError> {
        let blocks: Vec<(u64, &Arc<Block>)> = receipts.blocks().collect();
        let mut runs: Vec<ReceiptRun> = receipts.away().iter().map(|run| (**run).clone()).collect();
        let first_here = runs.last().map_or(receipts.first_block(), end);
        let mut rest = blocks.as_slice();
        let known = self.runs.drain(..).filter(|run| end(run) > first_here);
        runs.extend(known.take_while(|run| take(run, &mut rest)));
        self.runs = runs;
        let mut blobs = Vec::new();
        while let Some((run, later)) = rest.split_at_checked(RUN_BLOCKS)
            && let Some((first, _)) = run.first()
        {
            let held: Vec<Arc<Block>> = run.iter().map(|(_, block)| Arc::clone(block)).collect();
            let bytes = snapshot::encode_receipts(&held)?;
            let blob = BlobRef {
                hash: BlobHash::of(&bytes),
                size_bytes: bytes.len() as u64,
            };
            self.runs.push(ReceiptRun {
                first_block: *first,
                blob,
                outline: Some(Arc::new(Outline::of(&held))),
            });
            blobs.push(Bytes::from(bytes));
            rest = later;
        }
        let end = self.runs.last().map_or(first_here, end);
        Ok(PackedReceipts {
            receipts: receipts.without_blocks_before(end),
            runs: self.runs.clone(),
            blobs,
        })
    }
}

/// Number of the block after a run.
fn end(run: &ReceiptRun) -> u64 {
    run.first_block.saturating_add(RUN_BLOCKS as u64)
}

/// Takes a run's blocks from the front, if exactly they stand there: a session that was deleted
/// counts anew.
fn take(run: &ReceiptRun, rest: &mut &[(u64, &Arc<Block>)]) -> bool {
    let (Some((first, _)), Some(outline)) = (rest.first(), &run.outline) else {
        return false;
    };
    // Its oldest blocks may be forgotten by now.
    let left = usize::try_from(end(run).saturating_sub(*first)).unwrap_or(usize::MAX);
    let Some((mine, later)) = rest.split_at_checked(left) else {
        return false;
    };
    let same = mine.last().is_some_and(|(_, last)| outline.ends_with(last));
    if same {
        *rest = later;
    }
    same
}

/// Why receipts could not be brought back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum BringError {
    /// The store cannot be reached: the same may succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// They are not what was written: the log is to be read instead.
    #[error("receipts beside its snapshot cannot be read: {0}")]
    Damaged(String),
}

/// Blocks of receipts, each with its number.
pub(crate) type Blocks = Vec<(u64, Arc<Block>)>;

/// Notes which receipts stand in these runs; reads those of which nothing is known without.
pub(crate) async fn leave_away(
    receipts: &mut Receipts,
    runs: Vec<ReceiptRun>,
    key: &SessionKey,
    stores: &Stores,
) -> Result<(), BringError> {
    if runs.iter().all(|run| run.outline.is_some()) {
        receipts.leave_away(runs);
    } else {
        let blocks = bring(runs.iter(), key, stores).await?;
        receipts.put_back(blocks);
    }
    Ok(())
}

/// Reads the blocks of all these runs.
pub(crate) async fn bring(
    runs: impl Iterator<Item = &ReceiptRun>,
    key: &SessionKey,
    stores: &Stores,
) -> Result<Blocks, BringError> {
    let loaded = try_join_all(runs.map(|run| load(run, key, stores))).await?;
    Ok(loaded.into_iter().flatten().collect())
}

async fn load(run: &ReceiptRun, key: &SessionKey, stores: &Stores) -> Result<Blocks, BringError> {
    let hash = run.blob.hash;
    let bytes = match stores.blobs.get(key, hash).await {
        Ok(bytes) => bytes,
        Err(ReadError::Unavailable(detail)) => return Err(BringError::Unavailable(detail)),
        Err(ReadError::Corrupt(detail)) => return Err(BringError::Damaged(detail)),
    };
    let bytes = bytes.ok_or_else(|| BringError::Damaged(format!("blob {hash} is gone")))?;
    let blocks = snapshot::decode_receipts(&bytes);
    let blocks = blocks.map_err(|error| BringError::Damaged(error.to_string()))?;
    let last = blocks.last().filter(|_| blocks.len() == RUN_BLOCKS);
    let outline = run.outline.as_ref();
    if !last.is_some_and(|last| outline.is_none_or(|outline| outline.ends_with(last))) {
        return Err(BringError::Damaged(format!(
            "blob {hash} holds another run"
        )));
    }
    Ok((run.first_block..).zip(blocks).collect())
}
