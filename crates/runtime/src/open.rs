//! Opening a session: its snapshot, and the Records after it, verified.

use steadfast_core::apply;
use steadfast_core::event::Event;
use steadfast_core::id::{Epoch, Seq, SessionKey};
use steadfast_core::session::Session;
use steadfast_protocol::DecodeError;
use steadfast_protocol::chain::{self, ChainError, Link};
use steadfast_protocol::record::{self, Record, RecordHash};
use steadfast_protocol::snapshot::{self, Snapshot};
use steadfast_store::Stores;
use steadfast_store::error::ReadError;
use steadfast_store::log::{ReadFrom, StoredRecord, Tail, TailInfo};
use thiserror::Error;

use crate::pack;
use crate::pack::receipts::{self, ReceiptRuns};
use crate::rows::Rows;

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

/// Opens a session, reading at most `batch` Records at once.
pub(crate) async fn open(
    stores: &Stores,
    key: &SessionKey,
    batch: usize,
) -> Result<Opened, OpenError> {
    let (tail, snapshot) = tokio::join!(stores.log.tail(key), snapshot_of(stores, key));
    let tail = tail?;
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
    let (code, detail) = match open(stores, key, batch).await {
        Ok(opened) => return Ok(Ok(opened)),
        Err(OpenError::Quarantined { code, detail }) => (code, detail),
        Err(error) => return Err(error),
    };
    let tail = stores.log.tail(key).await?;
    let snapshot = snapshot_of(stores, key).await;
    let numbers = snapshot
        .as_ref()
        .map(|(snapshot, _)| (snapshot.session.seq, snapshot.session.epoch));
    let mut good = None;
    if let Some((snapshot, receipt_runs)) = snapshot
        && is_borne_out(stores, &snapshot, &tail).await?
        && let Ok(folding) = Folding::from_snapshot(snapshot, receipt_runs, &tail)
    {
        good = Some(folding.as_far_as_possible(stores, &tail, batch).await?);
    }
    let stray_snapshot = numbers.filter(|_| good.is_none());
    let from_start = Folding::from_start(key)
        .as_far_as_possible(stores, &tail, batch)
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

/// The fold of a log, as far as it was read.
pub(crate) struct Folding {
    pub(crate) session: Session,
    /// What the next Record must join; `None` before the first.
    link: Option<Link>,
    pub(crate) tail: Tail,
    records: u64,
    receipt_runs: ReceiptRuns,
    purge_through: Option<Tail>,
    /// Number of the first event after the last part that no longer counts.
    repaired_at: Option<Seq>,
    /// Number of the last event before the last Record.
    before_last: Seq,
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
            repaired_at: None,
            before_last: Seq(0),
        }
    }

    /// The end of what was read in one piece.
    pub(crate) fn link(&self) -> Link {
        self.link.unwrap_or(Link::START)
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
            repaired_at: None,
            before_last: Seq(0),
        })
    }

    async fn finish(
        mut self,
        stores: &Stores,
        tail: &TailInfo,
        batch: usize,
    ) -> Result<Self, OpenError> {
        self.go_through(stores, tail, batch, Seq(u64::MAX)).await?;
        Ok(self)
    }

    /// Folds all that can be read in one piece, Record by Record.
    async fn as_far_as_possible(
        mut self,
        stores: &Stores,
        tail: &TailInfo,
        batch: usize,
    ) -> Result<Self, OpenError> {
        match self.go_through(stores, tail, batch, Seq(u64::MAX)).await {
            Err(error @ (OpenError::Unavailable(_) | OpenError::NewerVersion(_))) => Err(error),
            Ok(()) | Err(OpenError::Quarantined { .. }) => {
                let denied = self.records > 0 && self.is_denied(stores, tail).await?;
                if self.is_whole() && !denied {
                    return Ok(self);
                }
                // Its last Record is applied in part, or was changed: it does not count.
                let mut shorter = Self::from_start(&self.session.key);
                let until = self.before_last;
                match shorter.go_through(stores, tail, batch, until).await {
                    Ok(()) | Err(OpenError::Quarantined { .. }) => Ok(shorter),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Whether the next Record says that another one stood before it than the last one here.
    async fn is_denied(&self, stores: &Stores, tail: &TailInfo) -> Result<bool, OpenError> {
        let mut rows = Rows::after(self.tail, tail.tail);
        let Some(row) = rows.next(stores, &self.session.key).await? else {
            return Ok(false);
        };
        Ok(record::decode(&row.bytes).is_ok_and(|next| {
            next.first_seq == self.link().last_seq.next() && next.prev != self.link().record
        }))
    }

    /// Whether no Record is applied in part.
    fn is_whole(&self) -> bool {
        self.link.is_none() || self.session.seq == self.link().last_seq
    }

    /// Whether this fold of the whole log counts though a snapshot does not fit: what followed the
    /// snapshot was purged by a deletion, and a crash left the snapshot behind; or a repair took the
    /// snapshot's numbers into account.
    fn goes_beyond(&self, covered: Seq, damage: &OpenError) -> bool {
        let is_gap = matches!(damage, OpenError::Quarantined { code: LOG_GAP, .. });
        is_gap || self.repaired_at.is_some_and(|at| at > covered)
    }

    /// Folds up to the tail, or up to an event, and passes over what was repaired.
    pub(crate) async fn go_through(
        &mut self,
        stores: &Stores,
        tail: &TailInfo,
        batch: usize,
        until: Seq,
    ) -> Result<(), OpenError> {
        loop {
            match self.fold_through(stores, tail, batch, until).await {
                Err(damage @ OpenError::Quarantined { .. }) => {
                    if !self.pass_over(stores, tail, batch, until).await? {
                        return Err(damage);
                    }
                }
                folded => return folded,
            }
        }
    }

    /// Looks for the Record by which an operator repaired what cannot be read here.
    async fn pass_over(
        &mut self,
        stores: &Stores,
        tail: &TailInfo,
        batch: usize,
        until: Seq,
    ) -> Result<bool, OpenError> {
        let mut rows = Rows::after(self.tail, tail.tail);
        while let Some(stored) = rows.next(stores, &self.session.key).await? {
            let Ok(record) = record::decode(&stored.bytes) else {
                continue;
            };
            let Some(after) = chain::repairs_after(&record) else {
                continue;
            };
            if after < self.link().last_seq {
                // What could not be read then can be read now, and does not count all the same.
                let mut shorter = Self::from_start(&self.session.key);
                let folded = shorter.fold_through(stores, tail, batch, after).await;
                if folded.is_err()
                    || chain::rejoin(&shorter.link(), &stored.bytes, stored.first_seq).is_err()
                {
                    continue;
                }
                *self = shorter;
            }
            if let Ok((record, link)) = chain::rejoin(&self.link(), &stored.bytes, stored.first_seq)
            {
                self.session.seq = Seq(record.first_seq.0.saturating_sub(1));
                self.repaired_at = Some(record.first_seq);
                self.take(stores, &stored, &record, link, until).await?;
                return Ok(true);
            }
        }
        Ok(false)
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
            let records = match stores.log.read(&key, from, batch).await {
                // What stands before the row that is damaged is read all the same.
                Err(ReadError::Corrupt(_)) => stores.log.read(&key, from, 1).await?,
                read => read?,
            };
            if records.is_empty() {
                return Err(self.ended_early(tail));
            }
            for stored in &records {
                if self.session.seq >= until {
                    return Ok(());
                }
                check_last(stored, tail)?;
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
        self.take(stores, stored, &record, link, until).await
    }

    async fn take(
        &mut self,
        stores: &Stores,
        stored: &StoredRecord,
        record: &Record,
        link: Link,
        until: Seq,
    ) -> Result<(), OpenError> {
        self.before_last = self.link().last_seq;
        self.apply(stores, record, until).await?;
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
