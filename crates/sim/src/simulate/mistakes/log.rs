//! A log whose reader takes what a replica gives for the whole of it, though it is behind: nothing is
//! held against the hash at the tail, nor against the hash that each Record has of the one before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;
use steadfast_protocol::record::{self, RecordHash};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{
    Append, AppendError, LastRecord, Log, ReadFrom, StoredRecord, Tail, TailInfo,
};

use crate::simulate::world::World;

pub(super) struct StaleLog {
    inner: Arc<dyn Log>,
    world: World,
    /// The last Record that a session's reader is given, and the tail for which it is taken.
    behind: Mutex<BTreeMap<SessionKey, (Tail, Tail)>>,
}

impl StaleLog {
    pub(super) fn new(inner: Arc<dyn Log>, world: World) -> Self {
        Self {
            inner,
            world,
            behind: Mutex::default(),
        }
    }

    fn behind(&self) -> MutexGuard<'_, BTreeMap<SessionKey, (Tail, Tail)>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Record before the last one, as if it were the last.
    async fn stale(&self, session: &SessionKey, told: &TailInfo) -> Option<(Tail, LastRecord)> {
        let from = ReadFrom::After(Tail::EMPTY);
        let records = self.inner.read(session, from, usize::MAX).await.ok()?;
        let before = records.iter().rev().nth(1)?;
        let last = record::decode(&before.bytes).ok()?;
        let last = LastRecord {
            hash: RecordHash::of(&before.bytes),
            last_seq: last.last_seq(),
            epoch: last.epoch,
            node: told.last.as_ref()?.node.clone(),
        };
        Some((before.tail, last))
    }
}

#[async_trait]
impl Log for StaleLog {
    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        self.inner.append(session, expected, append).await
    }

    async fn tail(&self, session: &SessionKey) -> Result<TailInfo, ReadError> {
        let told = self.inner.tail(session).await?;
        self.behind().remove(session);
        if !self.world.chance(10) {
            return Ok(told);
        }
        let Some((given, last)) = self.stale(session, &told).await else {
            return Ok(told);
        };
        self.behind().insert(session.clone(), (given, told.tail));
        Ok(TailInfo {
            tail: told.tail,
            last: Some(last),
        })
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let mut records = self.inner.read(session, from, limit).await?;
        if let Some(&(given, taken_for)) = self.behind().get(session) {
            records.retain(|record| record.tail <= given);
            if let Some(last) = records.last_mut().filter(|last| last.tail == given) {
                last.tail = taken_for;
            }
        }
        Ok(records)
    }

    async fn follow(&self, session: &SessionKey) -> Result<BoxStream<'static, ()>, ReadError> {
        self.inner.follow(session).await
    }

    async fn purge(&self, session: &SessionKey, through: Tail) -> Result<(), WriteError> {
        self.inner.purge(session, through).await
    }
}
