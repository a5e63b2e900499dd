//! Timers on redb: one row for each timer, and one in the order of time.
//!
//! Sessions that sleep may be very many and their timers far off: only timers of the near future
//! are held in memory, the others are loaded when their time comes near.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{Epoch, SessionKey, Timestamp};
use steadfast_store::clock::Clock;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::local::TimerQueue;
use steadfast_store::timers::{Due, Timers};

use crate::engine::Engine;
use crate::fault::Fault;
use crate::group::Group;
use crate::key::{self, KeyRange};
use crate::operation::{News, Promise, Step};
use crate::table::TableName;
use crate::view::View;

/// How far ahead timers are in memory.
const LOADED_AHEAD_MS: u64 = 10 * 60 * 1_000;

/// How often it is looked whether more must be loaded; the clock may have been set meanwhile.
const LOAD_LOOK: Duration = Duration::from_secs(60);

/// The timers of the near future, in memory.
pub(crate) struct LoadedTimers {
    queue: TimerQueue,
    clock: Arc<dyn Clock>,
    /// All timers up to this time are in the queue. Locked while timers are loaded, so that none
    /// is missed that is set meanwhile.
    loaded_to: Mutex<Timestamp>,
}

impl LoadedTimers {
    /// None is loaded yet.
    pub(crate) fn new(clock: Arc<dyn Clock>, silence: Duration) -> Self {
        Self {
            queue: TimerQueue::new(Arc::clone(&clock), silence),
            clock,
            loaded_to: Mutex::default(),
        }
    }

    /// A timer was set, or moved.
    pub(crate) fn set(&self, session: &SessionKey, epoch: Epoch, at: Timestamp) {
        let loaded_to = self.loaded_to();
        if at <= *loaded_to {
            self.queue.set(session, epoch, at);
        } else {
            self.queue.acknowledged(&due(session, epoch));
        }
    }

    /// A timer was forgotten.
    pub(crate) fn forgotten(&self, session: &SessionKey, epoch: Epoch) {
        let _loaded_to = self.loaded_to();
        self.queue.acknowledged(&due(session, epoch));
    }

    /// Loads all timers of the near future.
    pub(crate) fn load_anew(&self, view: &View) -> Result<(), Fault> {
        *self.loaded_to() = Timestamp::default();
        self.load_more(|| Ok(Arc::new(view.clone())))
    }

    /// Loads the timers between the last load and the near future of now. It is looked
    /// after the lock is taken: a timer is then either seen, or [`Self::set`] comes later.
    fn load_more(&self, look: impl FnOnce() -> Result<Arc<View>, Fault>) -> Result<(), Fault> {
        let mut loaded_to = self.loaded_to();
        let load_to = self.clock.now().plus_ms(LOADED_AHEAD_MS);
        if load_to <= *loaded_to {
            return Ok(());
        }
        // A timer of time 0 stands before all that were "loaded" at the beginning.
        let first = match *loaded_to {
            Timestamp(0) => Vec::new(),
            Timestamp(at) => at.saturating_add(1).to_be_bytes().to_vec(),
        };
        let range = KeyRange {
            first,
            end: load_to.0.saturating_add(1).to_be_bytes().to_vec(),
        };
        let view = look()?;
        for row in view.sight().rows(TableName::Due, &range)? {
            let key = row?.key;
            match split_due(&key) {
                Some((at, session, epoch)) => self.queue.set(&session, epoch, at),
                None => tracing::error!(key = ?&*key, "a timer of nobody is in the store"),
            }
        }
        *loaded_to = load_to;
        Ok(())
    }

    fn is_load_due(&self) -> bool {
        let near = self.clock.now().plus_ms(LOADED_AHEAD_MS / 2);
        near > *self.loaded_to()
    }

    /// Poison is passed over: at worst a timer is loaded twice, and fires twice.
    fn loaded_to(&self) -> MutexGuard<'_, Timestamp> {
        self.loaded_to
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`Timers`] on redb.
pub(crate) struct RedbTimers {
    engine: Arc<Engine>,
}

impl RedbTimers {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    async fn load_more(&self) -> Result<(), ReadError> {
        let shared = Arc::clone(&self.engine.shared);
        self.engine
            .apart(move || shared.timers.load_more(|| shared.view()))
            .await
    }
}

#[async_trait]
impl Timers for RedbTimers {
    async fn set(
        &self,
        session: &SessionKey,
        epoch: Epoch,
        at: Timestamp,
    ) -> Result<(), WriteError> {
        let session = session.clone();
        self.engine
            .write(Promise::Kept, 0, move |group| {
                set_timer(group, &session, epoch, at)
            })
            .await
    }

    async fn next(&self) -> Result<Due, ReadError> {
        let shared = &self.engine.shared;
        loop {
            if shared.timers.is_load_due() {
                self.load_more().await?;
            }
            tokio::select! {
                biased;
                reason = shared.not_working() => return Err(ReadError::Unavailable(reason)),
                due = shared.timers.queue.next() => return Ok(due),
                () = tokio::time::sleep(LOAD_LOOK) => {}
            }
        }
    }

    // Not synced at once: a timer that comes back after a crash is of an epoch that is over.
    async fn acknowledge(&self, due: &Due) -> Result<(), WriteError> {
        let due = due.clone();
        self.engine
            .write(Promise::Seen, 0, move |group| forget_timer(group, &due))
            .await
    }
}

fn set_timer(
    group: &mut Group<'_>,
    session: &SessionKey,
    epoch: Epoch,
    at: Timestamp,
) -> Result<Step<()>, Fault> {
    let key = key::numbered(session, epoch.0);
    if let Some(before) = group.get(TableName::Timers, &key)? {
        group.remove(TableName::Due, [&*before, &key].concat());
    }
    let at_bytes = at.0.to_be_bytes();
    group.put(
        TableName::Due,
        [at_bytes.as_slice(), &key].concat(),
        Bytes::new(),
    );
    group.put(TableName::Timers, key, at_bytes.to_vec());
    Ok(Step::changed(()).telling(News::TimerSet(session.clone(), epoch, at)))
}

fn forget_timer(group: &mut Group<'_>, due: &Due) -> Result<Step<()>, Fault> {
    let key = key::numbered(&due.session, due.epoch.0);
    let news = News::TimerForgotten(due.session.clone(), due.epoch);
    let Some(before) = group.get(TableName::Timers, &key)? else {
        return Ok(Step::unchanged(()).telling(news));
    };
    group.remove(TableName::Due, [&*before, &key].concat());
    group.remove(TableName::Timers, key);
    Ok(Step::changed(()).telling(news))
}

fn due(session: &SessionKey, epoch: Epoch) -> Due {
    Due {
        session: session.clone(),
        epoch,
    }
}

fn split_due(key: &[u8]) -> Option<(Timestamp, SessionKey, Epoch)> {
    let (at, rest) = key.split_first_chunk()?;
    let (session, epoch) = key::split_numbered(rest)?;
    Some((Timestamp(u64::from_be_bytes(*at)), session, Epoch(epoch)))
}
