//! Stands between the faults and the memory store: what it sees is what is committed. Bugs of a
//! store are put back here.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{Epoch, NodeId, SessionKey, Timestamp};
use steadfast_store::Stores;
use steadfast_store::active::{ActiveEntry, ActiveIndex};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{Append, AppendError, AroundLog, Log, ReadFrom, StoredRecord, Tail};
use steadfast_store::mailbox::{Delivery, Lane, Letter, MailSeq, Mailbox, SendError};
use steadfast_store::timers::{Due, Timers};

use super::mistakes;
use super::setup::Mistake;
use super::world::World;

/// The stores, watched.
pub(super) fn watch(stores: Stores, world: &World) -> Stores {
    let makes = |mistake: Mistake| world.setup.mistake == Some(mistake);
    let mut watched = stores.clone();
    watched.log = Arc::new(WatchedLog {
        inner: stores.log,
        world: world.clone(),
    });
    if makes(Mistake::LostMail) {
        watched.mailbox = Arc::new(LeakyMailbox {
            inner: Arc::clone(&stores.mailbox),
            world: world.clone(),
        });
    }
    if makes(Mistake::MailRemovedWhenRead) {
        watched.mailbox = Arc::new(mistakes::EagerMailbox(Arc::clone(&stores.mailbox)));
    }
    if makes(Mistake::ReleaseLosesWakeUp) {
        watched.mailbox = Arc::new(mistakes::SleepyMailbox(Arc::clone(&stores.mailbox)));
    }
    if makes(Mistake::IndexForgets) {
        watched.active = Arc::new(ForgetfulIndex);
    }
    if makes(Mistake::TimersAsleep) {
        watched.timers = Arc::new(SleepingTimers);
    }
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

struct LeakyMailbox {
    inner: Arc<dyn Mailbox>,
    world: World,
}

#[async_trait]
impl Mailbox for LeakyMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        if self.world.chance(50) {
            return Ok(MailSeq(u64::MAX / 2));
        }
        self.inner.send(session, lane, id, bytes).await
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        self.inner.pending(session, after, limit).await
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        self.inner.acknowledge(session, up_to).await
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        self.inner.next().await
    }

    async fn give_back(
        &self,
        delivery: Delivery,
        delay: std::time::Duration,
    ) -> Result<(), WriteError> {
        self.inner.give_back(delivery, delay).await
    }
}

struct ForgetfulIndex;

#[async_trait]
impl ActiveIndex for ForgetfulIndex {
    async fn add(&self, _: &NodeId, _: &SessionKey, _: Timestamp) -> Result<u64, WriteError> {
        Ok(1)
    }

    async fn remove(&self, _: &NodeId, _: &SessionKey, _: u64) -> Result<(), WriteError> {
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError> {
        Ok(Vec::new())
    }

    async fn entries(
        &self,
        _: &NodeId,
        _: Option<&SessionKey>,
        _: usize,
    ) -> Result<Vec<ActiveEntry>, ReadError> {
        Ok(Vec::new())
    }
}

struct SleepingTimers;

#[async_trait]
impl Timers for SleepingTimers {
    async fn set(&self, _: &SessionKey, _: Epoch, _: Timestamp) -> Result<(), WriteError> {
        Ok(())
    }

    async fn next(&self) -> Result<Due, ReadError> {
        std::future::pending().await
    }

    async fn acknowledge(&self, _: &Due) -> Result<(), WriteError> {
        Ok(())
    }
}

/// The stores as the node sees them: notes what is sent to the log, whatever becomes of it.
pub(super) fn announce(mut stores: Stores, world: &World) -> Stores {
    stores.log = Arc::new(AnnouncedLog {
        inner: stores.log,
        world: world.clone(),
    });
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
