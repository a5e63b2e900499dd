//! Stands between the faults and the memory store: what it sees is what is committed. Bugs of a
//! log's writes are put back here.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast_core::id::SessionKey;
use steadfast_store::Stores;
use steadfast_store::error::ReadError;
use steadfast_store::log::{Append, AppendError, AroundLog, Log, ReadFrom, StoredRecord, Tail};

use super::mistakes;
use super::setup::Mistake;
use super::world::World;

/// The stores, watched.
pub(super) fn watch(stores: Stores, world: &World) -> Stores {
    let mut watched = stores.clone();
    watched.log = Arc::new(WatchedLog {
        inner: stores.log,
        world: world.clone(),
    });
    mistakes::of_the_store(&mut watched, world);
    watched
}

struct WatchedLog {
    inner: Arc<dyn Log>,
    world: World,
}

impl WatchedLog {
    fn makes(&self, mistake: Mistake) -> bool {
        self.world.setup.mistake == Some(mistake)
    }
}

#[async_trait]
impl AroundLog for WatchedLog {
    fn inner(&self) -> &dyn Log {
        &*self.inner
    }

    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        let bytes = append.bytes.clone();
        let mut fence = expected;
        if self.makes(Mistake::AppendWithoutFence) {
            fence = self
                .inner
                .tail(session)
                .await
                .map_or(expected, |info| info.tail);
        }
        if self.makes(Mistake::AckWithoutRecord) && self.world.chance(5) {
            self.world.record_committed(session, &bytes);
            return Ok(Tail(expected.0 + 1));
        }
        let tail = self.inner.append(session, fence, append).await?;
        self.world.record_committed(session, &bytes);
        Ok(tail)
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let mut records = self.inner.read(session, from, limit).await?;
        if self.makes(Mistake::ReadOutOfOrder) {
            records.reverse();
        }
        Ok(records)
    }
}

/// The stores as the node sees them: notes what is sent to the log, whatever becomes of it.
pub(super) fn announce(mut stores: Stores, world: &World) -> Stores {
    stores.log = Arc::new(AnnouncedLog {
        inner: stores.log,
        world: world.clone(),
    });
    mistakes::of_a_node(&mut stores, world);
    stores
}

struct AnnouncedLog {
    inner: Arc<dyn Log>,
    world: World,
}

#[async_trait]
impl AroundLog for AnnouncedLog {
    fn inner(&self) -> &dyn Log {
        &*self.inner
    }

    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        self.world.record_sent(session, &append.bytes);
        self.inner.append(session, expected, append).await
    }
}
