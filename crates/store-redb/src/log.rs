//! The log on redb: one row for each Record, a session's rows one range.
//!
//! The tail is the number of the last row, so compare-and-append is one look at the end of the
//! range inside the transaction that writes, or at what the writer still knows of it. When a purge reaches the last Record, its row stays
//! without its bytes: the tail and the fence outlive the Records.

mod row;
mod tails;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
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
use crate::sight::{Row, Sight};
use crate::stats::add;
use crate::table::TableName;
use row::RowHead;
pub(crate) use tails::{Last, Tails};

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
        self.engine.read_here(|sight| {
            Ok(match last_row(sight, session)? {
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
            ReadFrom::Seq(seq) => self
                .engine
                .read_here(|sight| tail_before(sight, session, seq))?,
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
    let looked_up;
    let last = match group.last_record(session) {
        Some(last) => Some(last),
        None => {
            looked_up = last_row(group.sight(), session)?;
            looked_up.as_ref()
        }
    };
    let tail = last.map_or(Tail::EMPTY, |(tail, _)| *tail);
    let next = Tail(expected.0.saturating_add(1));
    if tail == expected {
        let entry = write_entry(group, &append.node, session);
        let head = RowHead::of(append);
        let row = head.encode(&append.bytes);
        group.put(TableName::Log, key::numbered(session, next.0), row);
        group.note_last_record(session, (next, head));
        return Ok(Step::changed(Ok(next)).telling(News::Appended(session.clone(), entry)));
    }
    // Sent again after its first answer was lost: it stands where it was to stand.
    let stands = last == Some(&(next, RowHead::of(append)));
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
) -> Option<(Vec<u8>, u64)> {
    let waiting = group.entries().find(|| key::of_node_session(node, session));
    let (key, entry) = waiting?;
    group.put(TableName::Active, key.clone(), entry.encode().to_vec());
    Some((key, entry.version))
}

/// Removes the first rows up to `through`; tells whether more are left to remove.
fn purge_some(
    group: &mut Group<'_>,
    session: &SessionKey,
    through: Tail,
) -> Result<Step<bool>, Fault> {
    let Some((last, _)) = last_row(group.sight(), session)? else {
        return Ok(Step::unchanged(false));
    };
    let mut range = key::of_session(session);
    range.end = key::numbered(session, last.0.min(through.0.saturating_add(1)));
    let removed = group.remove_some(TableName::Log, &range, PURGE_ROWS_MAX)?;
    Ok(if removed.rows > 0 {
        Step::changed(removed.stopped)
    } else {
        Step::unchanged(false)
    })
}

/// The last Record of a session, or what is left of it.
fn last_row(sight: Sight<'_>, session: &SessionKey) -> Result<Option<(Tail, RowHead)>, Fault> {
    let last = sight.last(TableName::Log, &key::of_session(session))?;
    last.map(|row| numbered_head(&row)).transpose()
}

/// The tail before the Record that holds `seq`, or before the first Record after it.
fn tail_before(sight: Sight<'_>, session: &SessionKey, seq: Seq) -> Result<Tail, Fault> {
    let range = key::of_session(session);
    let Some(first) = sight.rows(TableName::Log, &range)?.next().transpose()? else {
        return Ok(Tail::EMPTY);
    };
    let (first, first_head) = numbered_head(&first)?;
    if seq <= first_head.last_seq {
        return Ok(Tail(first.0.saturating_sub(1)));
    }
    // The last Record that ends before `seq`. Tails have no gap: purging takes from the front.
    let mut low = first.0;
    let mut high = match last_row(sight, session)? {
        Some((last, _)) => last.0,
        None => first.0,
    };
    while low < high {
        let middle = high - (high - low) / 2;
        let Some(row) = sight.get(TableName::Log, &key::numbered(session, middle))? else {
            return Err(Fault::Corrupt(format!(
                "record {middle} of {session} is missing"
            )));
        };
        if RowHead::decode(&row)?.0.last_seq < seq {
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

fn numbered_head(row: &Row) -> Result<(Tail, RowHead), Fault> {
    Ok((tail_of(&row.key)?, RowHead::decode(&row.value)?.0))
}

fn tail_of(key: &[u8]) -> Result<Tail, Fault> {
    match key::split_numbered(key) {
        Some((_, tail)) => Ok(Tail(tail)),
        None => Err(Fault::Corrupt("a record has no number".into())),
    }
}
