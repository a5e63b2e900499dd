//! Opening a session: its snapshot, and the Records after it, verified.

mod folding;

use steadfast_core::id::{Epoch, Seq, SessionKey};
use steadfast_core::session::Session;
use steadfast_protocol::DecodeError;
use steadfast_protocol::chain::ChainError;
use steadfast_protocol::record::RecordHash;
use steadfast_protocol::snapshot::{self as protocol, Snapshot};
use steadfast_store::Stores;
use steadfast_store::error::ReadError;
use steadfast_store::log::{StoredRecord, Tail, TailInfo};
use thiserror::Error;

use crate::pack::receipts::{self, BringError, ReceiptRuns};
use crate::rows::Rows;
use crate::snapshot;
use folding::Folding;

/// A session as the log holds it.
pub(crate) struct Opened {
    /// The fold.
    pub(crate) session: Session,
    /// The fence after its last Record.
    pub(crate) tail: Tail,
    /// Hash of its last Record.
    pub(crate) last_record: RecordHash,
    /// Records that no snapshot covers.
    pub(crate) records_since_snapshot: u64,
    /// Receipts that stand beside the snapshot.
    pub(crate) receipt_runs: ReceiptRuns,
    /// The session was deleted, and what stands before this may be purged.
    pub(crate) purge_through: Option<Tail>,
}

/// Why a session could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The store cannot be reached: the same may succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Its log cannot be right. Nobody runs it until an operator repairs it.
    #[error("its log cannot be right ({code}): {detail}")]
    Quarantined {
        /// Stable code.
        code: &'static str,
        /// For people.
        detail: String,
    },
    /// Its log was written by a newer release: it is left to others.
    #[error("it was written by a newer release: {0}")]
    NewerVersion(String),
}

impl From<ReadError> for OpenError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unavailable(detail) => Self::Unavailable(detail),
            ReadError::Corrupt(detail) => quarantined("store_corrupt", detail),
        }
    }
}

impl From<ChainError> for OpenError {
    fn from(error: ChainError) -> Self {
        let code = match &error {
            ChainError::Decode(DecodeError::Version { .. }) => {
                return Self::NewerVersion(error.to_string());
            }
            ChainError::Decode(DecodeError::Corrupt { .. }) => "record_corrupt",
            ChainError::Mislabelled { .. } => "record_mislabelled",
            ChainError::Gap { .. } => LOG_GAP,
            ChainError::Forked { .. } => "log_forked",
            ChainError::EpochFell { .. } => "epoch_fell",
            ChainError::Unnumbered { .. } => "record_empty",
            ChainError::Beheaded { .. } => "log_beheaded",
        };
        quarantined(code, error.to_string())
    }
}

/// The Record after another vouches for it by its hash; for the last one the store does.
fn check_last(stored: &StoredRecord, tail: &TailInfo) -> Result<(), OpenError> {
    match &tail.last {
        Some(last) if stored.tail == tail.tail && RecordHash::of(&stored.bytes) != last.hash => {
            let detail = "the last record is not the one that was acknowledged";
            Err(quarantined("record_corrupt", detail))
        }
        _ => Ok(()),
    }
}

fn quarantined(code: &'static str, detail: impl Into<String>) -> OpenError {
    OpenError::Quarantined {
        code,
        detail: detail.into(),
    }
}

/// Code of a log in which Records are missing.
const LOG_GAP: &str = "log_gap";

/// Opens a session with all its receipts, reading at most `batch` Records at once.
pub(crate) async fn open_whole(
    stores: &Stores,
    key: &SessionKey,
    batch: usize,
) -> Result<Opened, OpenError> {
    let mut opened = open(stores, key, batch).await?;
    if opened.session.receipts.away().is_empty() {
        return Ok(opened);
    }
    match snapshot::bring_receipts(stores, &opened.session).await {
        Ok(blocks) => opened.session.receipts.put_back(blocks),
        // Without its snapshot.
        Err(BringError::Damaged(_)) => {
            let tail = stores.log.tail(key).await?;
            return anew(stores, key, &tail, batch).await;
        }
        Err(BringError::Unavailable(detail)) => return Err(OpenError::Unavailable(detail)),
    }
    Ok(opened)
}

/// Opens a session, reading at most `batch` Records at once. Receipts may stay away: what a decision
/// asks of them is seldom among them.
pub(crate) async fn open(
    stores: &Stores,
    key: &SessionKey,
    batch: usize,
) -> Result<Opened, OpenError> {
    // In this order: a snapshot holds only what was committed before it was taken, so that the tail
    // that is read after it is never behind it, however busy another owner is.
    let snapshot = snapshot_of(stores, key).await;
    let tail = stores.log.tail(key).await?;
    // A snapshot only saves time: without one the whole log is read.
    let Some((snapshot, receipt_runs)) = snapshot else {
        return anew(stores, key, &tail, batch).await;
    };
    let covered = snapshot.session.seq;
    let folded = match Folding::from_snapshot(snapshot, receipt_runs, &tail) {
        Ok(folding) => folding.finish(stores, &tail, batch).await,
        Err(error) => Err(error),
    };
    match folded {
        Ok(folding) => Ok(folding.opened()),
        Err(damage @ OpenError::Quarantined { .. }) => {
            match Folding::from_start(key).finish(stores, &tail, batch).await {
                Ok(folding) if folding.goes_beyond(covered, &damage) => Ok(folding.opened()),
                Err(error @ (OpenError::Unavailable(_) | OpenError::NewerVersion(_))) => Err(error),
                Ok(_) | Err(OpenError::Quarantined { .. }) => Err(damage),
            }
        }
        Err(error) => Err(error),
    }
}

/// A snapshot with what stands beside it; `None` if it cannot be read.
async fn whole(bytes: &[u8], key: &SessionKey, stores: &Stores) -> Option<(Snapshot, ReceiptRuns)> {
    let read = protocol::decode(bytes).map_err(|error| error.to_string());
    let read = read.and_then(|snapshot| {
        let ours = snapshot.session.key == *key;
        ours.then_some(snapshot)
            .ok_or_else(|| "it is another session's".to_owned())
    });
    let joined = async {
        let mut snapshot = read?;
        let runs = std::mem::take(&mut snapshot.receipts);
        let receipts = &mut snapshot.session.receipts;
        let left = receipts::leave_away(receipts, runs.clone(), key, stores).await;
        left.map_err(|error| error.to_string())?;
        Ok::<_, String>((snapshot, ReceiptRuns::of(runs)))
    };
    joined
        .await
        .inspect_err(|error| tracing::info!(session = %key, error, "snapshot not used"))
        .ok()
}

async fn anew(
    stores: &Stores,
    key: &SessionKey,
    tail: &TailInfo,
    batch: usize,
) -> Result<Opened, OpenError> {
    let folding = Folding::from_start(key).finish(stores, tail, batch).await?;
    Ok(folding.opened())
}

/// How far a session can be read whose log cannot be right, and the number of its last event.
pub(crate) async fn readable(
    stores: &Stores,
    key: &SessionKey,
    batch: usize,
) -> Option<(Session, Seq)> {
    let tail = stores.log.tail(key).await.ok()?;
    let mut folding = Folding::from_start(key);
    // Why it ends is known: that is why somebody asks.
    let _ = folding
        .go_through(stores, &tail, batch, Seq(u64::MAX))
        .await;
    let last_seq = tail.last.map_or(folding.session.seq, |last| last.last_seq);
    Some((folding.session, last_seq))
}

/// A session whose log cannot be read to its end.
pub(crate) struct Damaged {
    /// What can be read in one piece.
    pub(crate) good: Folding,
    /// What is wrong: stable code.
    pub(crate) code: &'static str,
    /// The same for people.
    pub(crate) detail: String,
    /// The end of the log.
    pub(crate) tail: TailInfo,
    /// A snapshot that the log does not bear out, and the numbers that it knows.
    pub(crate) stray_snapshot: Option<(Seq, Epoch)>,
}

/// How far a session can be read in one piece, or the session when that is the whole of it.
pub(crate) async fn damaged(
    stores: &Stores,
    key: &SessionKey,
    batch: usize,
) -> Result<Result<Opened, Damaged>, OpenError> {
    let (code, detail) = match open_whole(stores, key, batch).await {
        Ok(opened) => return Ok(Ok(opened)),
        Err(OpenError::Quarantined { code, detail }) => (code, detail),
        Err(error) => return Err(error),
    };
    let snapshot = snapshot_of(stores, key).await;
    let tail = stores.log.tail(key).await?;
    let numbers = snapshot
        .as_ref()
        .map(|(snapshot, _)| (snapshot.session.seq, snapshot.session.epoch));
    let mut good = None;
    if let Some((mut snapshot, receipt_runs)) = snapshot
        && is_borne_out(stores, &snapshot, &tail).await?
        && let Ok(blocks) = snapshot::bring_receipts(stores, &snapshot.session).await
        && {
            snapshot.session.receipts.put_back(blocks);
            true
        }
        && let Ok(folding) = Folding::from_snapshot(snapshot, receipt_runs, &tail)
    {
        good = Some(folding.readable_part(stores, &tail, batch).await?);
    }
    let stray_snapshot = numbers.filter(|_| good.is_none());
    let from_start = Folding::from_start(key)
        .readable_part(stores, &tail, batch)
        .await?;
    let good = match good {
        Some(good) if good.session.seq >= from_start.session.seq => good,
        _ => from_start,
    };
    Ok(Err(Damaged {
        good,
        code,
        detail,
        tail,
        stray_snapshot,
    }))
}

async fn snapshot_of(stores: &Stores, key: &SessionKey) -> Option<(Snapshot, ReceiptRuns)> {
    let bytes = stores.snapshots.get(key).await.ok().flatten()?;
    whole(&bytes, key, stores).await
}

/// Whether the log holds the very Record that a snapshot covers last.
async fn is_borne_out(
    stores: &Stores,
    snapshot: &Snapshot,
    tail: &TailInfo,
) -> Result<bool, OpenError> {
    let before = Tail(snapshot.tail.saturating_sub(1));
    let row = Rows::after(before, tail.tail)
        .next(stores, &snapshot.session.key)
        .await?;
    Ok(row.is_some_and(|row| {
        row.tail == Tail(snapshot.tail) && RecordHash::of(&row.bytes) == snapshot.last_record
    }))
}

/// The state of a session after an event, folded from the start of its log.
pub(crate) async fn as_of(
    stores: &Stores,
    key: &SessionKey,
    at: Seq,
    batch: usize,
) -> Result<Session, OpenError> {
    let tail = stores.log.tail(key).await?;
    let mut folding = Folding::from_start(key);
    folding.go_through(stores, &tail, batch, at).await?;
    Ok(folding.session)
}
