//! The log on redb: one row for each Record, a session's rows one range.
//!
//! The tail is the number of the last row, so compare-and-append is one look at the end of the
//! range inside the transaction that writes. When a purge reaches the last Record, its row stays
//! without its bytes: the tail and the fence outlive the Records.

mod row;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use redb::{AccessGuard, ReadableTable};
use steadfast_core::id::{NodeId, Seq, SessionKey};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{
    Append, AppendError, LastRecord, Log, ReadFrom, StoredRecord, Tail, TailInfo,
};

use crate::engine::Engine;
use crate::fault::Fault;
use crate::group::Group;
use crate::key;
use crate::operation::{News, Promise, Step};
use crate::stats::add;
use crate::table::{self, TableName};
use row::RowHead;

/// A Record above this is refused: no writer makes one, and one must not hold up all sessions.
const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Rows that one transaction of a purge removes, so that purging a long log does not hold up
/// the others.
const PURGE_ROWS_MAX: usize = 1_000;

/// [`Log`] on redb.
pub(crate) struct RedbLog {
    engine: Arc<Engine>,
}

impl RedbLog {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

#[async_trait]
impl Log for RedbLog {
    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        if append.bytes.len() > RECORD_BYTES_MAX {
            let reason = format!("a record of more than {RECORD_BYTES_MAX} bytes");
            return Err(WriteError::Refused(reason).into());
        }
        let session = session.clone();
        let size_bytes = append.bytes.len();
        let result = self
            .engine
            .write(Promise::Kept, size_bytes, move |group| {
                append_record(group, &session, expected, &append)
            })
            .await?;
        let counters = &self.engine.shared.counters;
        match &result {
            Ok(_) => {
                add(&counters.appends, 1);
                add(&counters.appended_bytes, size_bytes);
            }
            Err(_) => add(&counters.conflicts, 1),
        }
        result
    }

    async fn tail(&self, session: &SessionKey) -> Result<TailInfo, ReadError> {
        self.engine.read_here(|read| {
            let log = table::open(read, TableName::Log)?;
            Ok(match last_row(&log, session)? {
                None => TailInfo {
                    tail: Tail::EMPTY,
                    last: None,
                },
                Some((tail, head)) => TailInfo {
                    tail,
                    last: Some(LastRecord {
                        hash: head.hash,
                        last_seq: head.last_seq,
                        epoch: head.epoch,
                        node: head.node,
                    }),
                },
            })
        })
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let tail = match from {
            ReadFrom::After(tail) => tail,
            ReadFrom::Seq(seq) => self.engine.read_here(|read| {
                let log = table::open(read, TableName::Log)?;
                tail_before(&log, session, seq)
            })?,
        };
        let mut range = key::of_session(session);
        range.first = key::numbered(session, tail.0.saturating_add(1));
        let rows = self.engine.read_rows(TableName::Log, range, limit).await?;
        rows.iter()
            .map(|(key, row)| read_record(key, row).map_err(Fault::into_read_error))
            .collect()
    }

    async fn follow(&self, session: &SessionKey) -> Result<BoxStream<'static, ()>, ReadError> {
        Ok(self.engine.shared.signals.follow(session))
    }

    async fn purge(&self, session: &SessionKey, through: Tail) -> Result<(), WriteError> {
        loop {
            let session = session.clone();
            let more = self
                .engine
                .write(Promise::Kept, 0, move |group| {
                    purge_some(group, &session, through)
                })
                .await?;
            if !more {
                return Ok(());
            }
        }
    }
}

fn append_record(
    group: &mut Group<'_>,
    session: &SessionKey,
    expected: Tail,
    append: &Append,
) -> Result<Step<Result<Tail, AppendError>>, Fault> {
    let log = group.table(TableName::Log)?;
    let last = last_row(log, session)?;
    let tail = last.as_ref().map_or(Tail::EMPTY, |(tail, _)| *tail);
    let next = Tail(expected.0.saturating_add(1));
    if tail == expected {
        let entry = write_entry(group, &append.node, session)?;
        let row = RowHead::of(append).encode(&append.bytes);
        let log = group.table(TableName::Log)?;
        log.insert(key::numbered(session, next.0).as_slice(), row.as_slice())?;
        return Ok(Step::changed(Ok(next)).telling(News::Appended(session.clone(), entry)));
    }
    // Sent again after its first answer was lost: it stands where it was to stand.
    let stands = last == Some((next, RowHead::of(append)));
    Ok(Step::unchanged(if stands {
        Ok(next)
    } else {
        Err(AppendError::Conflict)
    }))
}

/// Writes the entry of the index that waits for this append, if one does, and before the Record: one
/// too many does no harm.
fn write_entry(
    group: &mut Group<'_>,
    node: &NodeId,
    session: &SessionKey,
) -> Result<Option<(Vec<u8>, u64)>, Fault> {
    let waiting = group.entries().find(|| key::of_node_session(node, session));
    let Some((key, entry)) = waiting else {
        return Ok(None);
    };
    group
        .table(TableName::Active)?
        .insert(key.as_slice(), entry.encode().as_slice())?;
    Ok(Some((key, entry.version)))
}

/// Removes the first rows up to `through`; tells whether more are left to remove.
fn purge_some(
    group: &mut Group<'_>,
    session: &SessionKey,
    through: Tail,
) -> Result<Step<bool>, Fault> {
    let log = group.table(TableName::Log)?;
    let Some((last, _)) = last_row(log, session)? else {
        return Ok(Step::unchanged(false));
    };
    let mut range = key::of_session(session);
    range.end = key::numbered(session, last.0.min(through.0.saturating_add(1)));
    let removed = table::remove_some(log, &range, PURGE_ROWS_MAX)?;
    Ok(if removed.rows > 0 {
        Step::changed(removed.stopped)
    } else {
        Step::unchanged(false)
    })
}

type Slice = &'static [u8];

/// The last Record of a session, or what is left of it.
fn last_row(
    log: &impl ReadableTable<Slice, Slice>,
    session: &SessionKey,
) -> Result<Option<(Tail, RowHead)>, Fault> {
    let range = key::of_session(session);
    let mut rows = log.range::<&[u8]>(range.first.as_slice()..range.end.as_slice())?;
    rows.next_back()
        .transpose()?
        .map(|row| numbered_head(&row))
        .transpose()
}

/// The tail before the Record that holds `seq`, or before the first Record after it.
fn tail_before(
    log: &impl ReadableTable<Slice, Slice>,
    session: &SessionKey,
    seq: Seq,
) -> Result<Tail, Fault> {
    let range = key::of_session(session);
    let mut rows = log.range::<&[u8]>(range.first.as_slice()..range.end.as_slice())?;
    let Some(first) = rows.next().transpose()? else {
        return Ok(Tail::EMPTY);
    };
    let (first, first_head) = numbered_head(&first)?;
    if seq <= first_head.last_seq {
        return Ok(Tail(first.0.saturating_sub(1)));
    }
    // The last Record that ends before `seq`. Tails have no gap: purging takes from the front.
    let mut low = first.0;
    let mut high = match rows.next_back().transpose()? {
        Some(last) => numbered_head(&last)?.0.0,
        None => first.0,
    };
    while low < high {
        let middle = high - (high - low) / 2;
        let Some(row) = log.get(key::numbered(session, middle).as_slice())? else {
            return Err(Fault::Corrupt(format!(
                "record {middle} of {session} is missing"
            )));
        };
        if RowHead::decode(row.value())?.0.last_seq < seq {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(Tail(low))
}

fn read_record(key: &[u8], row: &Bytes) -> Result<StoredRecord, Fault> {
    let (head, bytes) = RowHead::decode(row)?;
    Ok(StoredRecord {
        tail: tail_of(key)?,
        first_seq: head.first_seq,
        bytes: row.slice_ref(bytes),
    })
}

fn numbered_head(
    (key, value): &(AccessGuard<'_, Slice>, AccessGuard<'_, Slice>),
) -> Result<(Tail, RowHead), Fault> {
    Ok((tail_of(key.value())?, RowHead::decode(value.value())?.0))
}

fn tail_of(key: &[u8]) -> Result<Tail, Fault> {
    match key::split_numbered(key) {
        Some((_, tail)) => Ok(Tail(tail)),
        None => Err(Fault::Corrupt("a record has no number".into())),
    }
}
