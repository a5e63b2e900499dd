//! The fold of a log, Record by Record, past what was repaired.

use steadfast_core::apply;
use steadfast_core::event::Event;
use steadfast_core::id::{Seq, SessionKey};
use steadfast_core::session::Session;
use steadfast_protocol::chain::{self, Link};
use steadfast_protocol::record::{self, Record, RecordHash};
use steadfast_protocol::snapshot::Snapshot;
use steadfast_store::Stores;
use steadfast_store::error::ReadError;
use steadfast_store::log::{ReadFrom, StoredRecord, Tail, TailInfo};
use tokio::time::Duration;

use super::{LOG_GAP, OpenError, Opened, check_last, quarantined};
use crate::host::backoff;
use crate::pack;
use crate::pack::receipts::ReceiptRuns;
use crate::rows::Rows;

/// Looks at a log that seems to end before its tail: copies lag for moments.
const LAG_TRIES: u32 = 5;
/// Wait before the first such look; doubled each time.
const LAG_WAIT_MIN: Duration = Duration::from_millis(20);
/// Longest such wait.
const LAG_WAIT_MAX: Duration = Duration::from_millis(500);

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
    pub(super) fn from_start(key: &SessionKey) -> Self {
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

    pub(super) fn from_snapshot(
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

    pub(super) async fn finish(
        mut self,
        stores: &Stores,
        tail: &TailInfo,
        batch: usize,
    ) -> Result<Self, OpenError> {
        self.go_through(stores, tail, batch, Seq(u64::MAX)).await?;
        Ok(self)
    }

    /// Folds all that can be read in one piece, Record by Record.
    pub(super) async fn readable_part(
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
    pub(super) fn goes_beyond(&self, covered: Seq, damage: &OpenError) -> bool {
        let is_gap = matches!(damage, OpenError::Quarantined { code: LOG_GAP, .. });
        is_gap || self.repaired_at.is_some_and(|at| at > covered)
    }

    /// Folds up to the tail, or up to an event, and passes over what was repaired.
    pub(super) async fn go_through(
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
        let mut lagged = 0;
        while self.tail < tail.tail && self.session.seq < until {
            let from = ReadFrom::After(self.tail);
            let key = self.session.key.clone();
            let records = match stores.log.read(&key, from, batch).await {
                // What stands before the row that is damaged is read all the same.
                Err(ReadError::Corrupt(_)) => stores.log.read(&key, from, 1).await?,
                read => read?,
            };
            if records.is_empty() {
                if lagged >= LAG_TRIES {
                    return Err(self.ended_early(tail));
                }
                lagged += 1;
                // Nothing tells when a copy has caught up.
                tokio::time::sleep(backoff(LAG_WAIT_MIN, LAG_WAIT_MAX, lagged)).await;
                continue;
            }
            lagged = 0;
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

    pub(super) fn opened(self) -> Opened {
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
