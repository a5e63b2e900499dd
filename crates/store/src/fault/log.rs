//! Faults of the log.

use std::collections::BTreeMap;
use std::future;
use std::sync::{Arc, Mutex, Weak};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;
use steadfast_protocol::record::RecordHash;

use super::line::Line;
use super::operation::{Fault, Operation};
use super::rival;
use crate::active::ActiveIndex;
use crate::error::{ReadError, WriteError};
use crate::local::lock;
use crate::log::{Append, AppendError, Log, ReadFrom, StoredRecord, Tail, TailInfo};
use crate::stores::Stores;

pub(super) struct FaultyLog {
    inner: Arc<dyn Log>,
    active: Arc<dyn ActiveIndex>,
    line: Arc<Line>,
    /// Of each session the last append whose outcome this node does not know.
    unknown: Mutex<BTreeMap<SessionKey, Unknown>>,
}

#[derive(Clone)]
struct Unknown {
    hash: RecordHash,
    /// Held by the write while it is under way.
    under_way: Weak<()>,
}

impl FaultyLog {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.log),
            active: Arc::clone(&inner.active),
            line: Arc::clone(line),
            unknown: Mutex::default(),
        }
    }

    /// Whether a repetition meets its own first sending and takes it for another's.
    async fn conflicts_with_itself(&self, session: &SessionKey, append: &Append) -> bool {
        let unknown = lock(&self.unknown).get(session).cloned();
        let Some(unknown) = unknown.filter(|unknown| unknown.hash == append.hash) else {
            return false;
        };
        if !self.line.plan.draws_own_conflict() {
            return false;
        }
        if unknown.under_way.strong_count() > 0 {
            return true;
        }
        let told = self.inner.tail(session).await;
        told.is_ok_and(|told| told.last.is_some_and(|last| last.hash == append.hash))
    }
}

#[async_trait]
impl Log for FaultyLog {
    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        let decision = self.line.plan.decide(Operation::Append).await;
        if decision.fault == Some(Fault::InFlight) {
            return Err(AppendError::Conflict);
        }
        if decision.fault == Some(Fault::Conflict) {
            rival::take_over(self.inner.as_ref(), self.active.as_ref(), session).await;
        }
        if decision.fault.is_none() && self.conflicts_with_itself(session, &append).await {
            return Err(AppendError::Conflict);
        }
        let hash = append.hash;
        let under_way = Arc::new(());
        let unknown = Unknown {
            hash,
            under_way: Arc::downgrade(&under_way),
        };
        // Noted before it leaves: the caller may be dropped while it is under way.
        lock(&self.unknown).insert(session.clone(), unknown);
        let (inner, key) = (Arc::clone(&self.inner), session.clone());
        let run = async move {
            let outcome = inner.append(&key, expected, append).await;
            drop(under_way);
            outcome
        };
        let outcome = self
            .line
            .write_with(decision.fault, decision.latency, run)
            .await;
        if !matches!(outcome, Err(AppendError::Write(WriteError::Unknown(_)))) {
            let mut unknown = lock(&self.unknown);
            if unknown.get(session).is_some_and(|last| last.hash == hash) {
                unknown.remove(session);
            }
        }
        outcome
    }

    async fn tail(&self, session: &SessionKey) -> Result<TailInfo, ReadError> {
        self.line.read(Operation::Tail).await?;
        self.inner.tail(session).await
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let fault = self.line.read(Operation::Read).await?;
        let mut records = self.inner.read(session, from, limit).await?;
        if let Some(Fault::Stale { records: missing }) = fault {
            let newest = self.inner.tail(session).await?.tail;
            if records.last().is_some_and(|last| last.tail == newest) {
                records.truncate(records.len().saturating_sub(missing));
            }
        }
        if let (Some(Fault::Corrupt), Some(last)) = (fault, records.last_mut()) {
            last.bytes = corrupted(&last.bytes);
        }
        Ok(records)
    }

    async fn follow(&self, session: &SessionKey) -> Result<BoxStream<'static, ()>, ReadError> {
        if self.line.read(Operation::Follow).await? == Some(Fault::Lost) {
            return Ok(futures_util::stream::once(future::ready(()))
                .chain(futures_util::stream::pending())
                .boxed());
        }
        let plan = Arc::clone(&self.line.plan);
        let mut is_first = true;
        let signals = self.inner.follow(session).await?.filter(move |()| {
            let comes = std::mem::take(&mut is_first) || !plan.is_silent();
            future::ready(comes)
        });
        Ok(signals.boxed())
    }

    async fn purge(&self, session: &SessionKey, through: Tail) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write(Operation::Purge, async move {
                inner.purge(&session, through).await
            })
            .await
    }
}

/// The bytes with one bit in the middle turned over.
pub(super) fn corrupted(bytes: &Bytes) -> Bytes {
    let mut changed = BytesMut::from(bytes.as_ref());
    let middle = changed.len() / 2;
    if let Some(byte) = changed.get_mut(middle) {
        *byte ^= 1;
    }
    changed.freeze()
}
