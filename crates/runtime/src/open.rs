//! Opening a session: its snapshot, and the Records after it, verified.

use steadfast_core::apply;
use steadfast_core::event::Event;
use steadfast_core::id::{Seq, SessionKey};
use steadfast_core::session::Session;
use steadfast_protocol::DecodeError;
use steadfast_protocol::chain::{self, ChainError, Link};
use steadfast_protocol::record::{Record, RecordHash};
use steadfast_protocol::snapshot::{self, Snapshot};
use steadfast_store::Stores;
use steadfast_store::error::ReadError;
use steadfast_store::log::{ReadFrom, StoredRecord, Tail, TailInfo};
use thiserror::Error;

use crate::pack;
use crate::pack::receipts::{self, ReceiptRuns};

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

fn quarantined(code: &'static str, detail: impl Into<String>) -> OpenError {
    OpenError::Quarantined {
        code,
        detail: detail.into(),
    }
}

/// Code of a log in which Records are missing.
const LOG_GAP: &str = "log_gap";

/// Opens a session, reading at most `batch` Records at once.
pub(crate) async fn open(
    stores: &Stores,
    key: &SessionKey,
    batch: usize,
) -> Result<Opened, OpenError> {
    let (tail, snapshot) = tokio::join!(stores.log.tail(key), stores.snapshots.get(key));
    let tail = tail?;
    // A snapshot only saves time: without one the whole log is read.
    let snapshot = snapshot.ok().flatten();
    let snapshot = match snapshot {
        Some(bytes) => whole(&bytes, key, stores).await,
        None => None,
    };
    let Some((snapshot, receipt_runs)) = snapshot else {
        return anew(stores, key, &tail, batch).await;
    };
    let mut folding = Folding::from_snapshot(snapshot, receipt_runs, &tail)?;
    let folded = folding
        .fold_through(stores, &tail, batch, Seq(u64::MAX))
        .await;
    match folded {
        Ok(()) => Ok(folding.opened()),
        // A deletion purged what followed the snapshot, and a crash left the snapshot behind: what
        // is kept then begins with the deletion and is whole by itself.
        Err(gap @ OpenError::Quarantined { code: LOG_GAP, .. }) => {
            match anew(stores, key, &tail, batch).await {
                Err(OpenError::Quarantined { .. }) => Err(gap),
                opened => opened,
            }
        }
        Err(error) => Err(error),
    }
}

/// A snapshot with what stands beside it; `None` if it cannot be read.
async fn whole(bytes: &[u8], key: &SessionKey, stores: &Stores) -> Option<(Snapshot, ReceiptRuns)> {
    let read = snapshot::decode(bytes).map_err(|error| error.to_string());
    let read = read.and_then(|snapshot| {
        let ours = snapshot.session.key == *key;
        ours.then_some(snapshot)
            .ok_or_else(|| "it is another session's".to_owned())
    });
    let put_back = async {
        let mut snapshot = read?;
        let receipts = &mut snapshot.session.receipts;
        let runs = receipts::put_back(receipts, &snapshot.receipts, key, stores).await?;
        Ok::<_, String>((snapshot, runs))
    };
    put_back
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
    let mut folding = Folding::from_start(key);
    folding
        .fold_through(stores, tail, batch, Seq(u64::MAX))
        .await?;
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
        .fold_through(stores, &tail, batch, Seq(u64::MAX))
        .await;
    let last_seq = tail.last.map_or(folding.session.seq, |last| last.last_seq);
    Some((folding.session, last_seq))
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
    folding.fold_through(stores, &tail, batch, at).await?;
    Ok(folding.session)
}

/// The fold of a log, as far as it was read.
struct Folding {
    session: Session,
    /// What the next Record must join; `None` before the first.
    link: Option<Link>,
    tail: Tail,
    records: u64,
    receipt_runs: ReceiptRuns,
    purge_through: Option<Tail>,
}

impl Folding {
    fn from_start(key: &SessionKey) -> Self {
        Self {
            session: Session::new(key.clone()),
            link: None,
            tail: Tail::EMPTY,
            records: 0,
            receipt_runs: ReceiptRuns::default(),
            purge_through: None,
        }
    }

    fn from_snapshot(
        snapshot: Snapshot,
        receipt_runs: ReceiptRuns,
        tail: &TailInfo,
    ) -> Result<Self, OpenError> {
        let at = Tail(snapshot.tail);
        if at > tail.tail {
            let detail = format!("a snapshot was taken at event {}", snapshot.session.seq);
            return Err(quarantined("log_lost", detail));
        }
        let last = tail.last.as_ref();
        if at == tail.tail && last.is_some_and(|last| last.hash != snapshot.last_record) {
            let detail = "the last record is not the one that the snapshot covers";
            return Err(quarantined("log_forked", detail));
        }
        Ok(Self {
            link: Some(Link::from(&snapshot)),
            session: snapshot.session,
            tail: at,
            records: 0,
            receipt_runs,
            purge_through: None,
        })
    }

    /// Folds all Records up to the tail, or up to an event.
    async fn fold_through(
        &mut self,
        stores: &Stores,
        tail: &TailInfo,
        batch: usize,
        until: Seq,
    ) -> Result<(), OpenError> {
        while self.tail < tail.tail && self.session.seq < until {
            let from = ReadFrom::After(self.tail);
            let key = self.session.key.clone();
            let records = stores.log.read(&key, from, batch).await?;
            if records.is_empty() {
                return Err(self.ended_early(tail));
            }
            for stored in &records {
                self.fold(stores, stored, until).await?;
            }
        }
        Ok(())
    }

    async fn fold(
        &mut self,
        stores: &Stores,
        stored: &StoredRecord,
        until: Seq,
    ) -> Result<(), OpenError> {
        let (record, link) = match &self.link {
            Some(link) => chain::verify(link, &stored.bytes, stored.first_seq)?,
            None => chain::begin(&stored.bytes, stored.first_seq)?,
        };
        if self.link.is_none() {
            // What was purged before a deletion counts only by its numbers.
            self.session.seq = Seq(record.first_seq.0.saturating_sub(1));
            self.session.epoch = record.epoch;
        }
        self.apply(stores, &record, until).await?;
        self.link = Some(link);
        self.tail = stored.tail;
        self.records += 1;
        Ok(())
    }

    async fn apply(
        &mut self,
        stores: &Stores,
        record: &Record,
        until: Seq,
    ) -> Result<(), OpenError> {
        for entry in &record.entries {
            for event in &entry.events {
                if self.session.seq >= until {
                    return Ok(());
                }
                if let Event::CompactionStarted { through, .. }
                | Event::TranscriptCompacted { through, .. } = event
                {
                    pack::cut_after(&mut self.session, *through, stores).await?;
                }
                if matches!(event, Event::SessionDeleted) && self.tail != Tail::EMPTY {
                    self.purge_through = Some(self.tail);
                }
                apply(&mut self.session, entry.at, event);
            }
        }
        Ok(())
    }

    /// The log gives no more Records although its tail is further: a reader may be behind.
    fn ended_early(&self, tail: &TailInfo) -> OpenError {
        let at = self.session.seq;
        let until = tail.last.as_ref().map_or(Seq(0), |last| last.last_seq);
        OpenError::Unavailable(format!(
            "the log gives nothing after event {at}, its tail says {until}"
        ))
    }

    fn opened(self) -> Opened {
        Opened {
            session: self.session,
            tail: self.tail,
            last_record: self.link.map_or(RecordHash::NONE, |link| link.record),
            records_since_snapshot: self.records,
            receipt_runs: self.receipt_runs,
            purge_through: self.purge_through,
        }
    }
}
