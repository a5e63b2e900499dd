//! What all ports of one file share: the open database, the way to the writer, who waits for news.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

use bytes::Bytes;
use steadfast_store::clock::Clock;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::local::{MailQueue, Signals};
use tokio::sync::{Semaphore, watch};

use crate::entries::WaitingEntries;
use crate::fault::{Fault, read_guarded};
use crate::group::Group;
use crate::key::KeyRange;
use crate::letters::Letters;
use crate::operation::{News, Operation, Promise, Step};
use crate::sight::Sight;
use crate::stats::{Counters, Stats};
use crate::storage::Seen;
use crate::table::TableName;
use crate::timers::LoadedTimers;
use crate::view::View;

/// Operations that may wait for the writer; a sender beyond waits until there is room.
pub const QUEUE_OPERATIONS_MAX: usize = 4_096;

/// Reads that may occupy threads of their own at once; others wait.
const READS_APART_MAX: usize = 32;

/// Bytes that a read copies on the caller's thread before the rest of it moves to one of its own.
const READ_HERE_BYTES_MAX: usize = 64 * 1024;

/// Whether the store works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// It does.
    Working,
    /// The file failed, for this reason; only opening it anew can help.
    Failed(String),
    /// It was closed.
    Closed,
}

/// What goes to the writer.
pub(crate) enum Message {
    /// A write.
    Operation(Operation),
    /// Write what waits, then end.
    Close,
}

/// What the ports and the writer share.
pub(crate) struct Shared {
    /// What is seen of the file while it is open. The writer alone replaces it.
    view: RwLock<Option<Arc<View>>>,
    pub(crate) health: watch::Sender<Health>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) counters: Counters,
    pub(crate) letters: Letters,
    pub(crate) entries: WaitingEntries,
    /// The last position of a letter or version of an index entry that was given out.
    position: AtomicU64,
    pub(crate) mail_queue: MailQueue,
    pub(crate) signals: Signals,
    pub(crate) timers: LoadedTimers,
    places: Arc<Semaphore>,
    reads_apart: Arc<Semaphore>,
}

impl Shared {
    /// Of a store that is not open yet.
    pub(crate) fn new(seen: Arc<Seen>, clock: Arc<dyn Clock>, silence: Duration) -> Self {
        Self {
            view: RwLock::new(None),
            health: watch::Sender::new(Health::Working),
            seen,
            counters: Counters::default(),
            letters: Letters::default(),
            entries: WaitingEntries::default(),
            position: AtomicU64::new(0),
            mail_queue: MailQueue::new(silence),
            signals: Signals::default(),
            timers: LoadedTimers::new(clock, silence),
            places: Arc::new(Semaphore::new(QUEUE_OPERATIONS_MAX)),
            reads_apart: Arc::new(Semaphore::new(READS_APART_MAX)),
        }
    }

    /// All that is committed now.
    pub(crate) fn view(&self) -> Result<Arc<View>, Fault> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        match view.as_ref() {
            Some(view) => Ok(Arc::clone(view)),
            None => Err(Fault::NotOpen(self.why_not_open())),
        }
    }

    /// Where readers find what they see: to replace it, or, while the file is opened anew, to keep
    /// them waiting.
    pub(crate) fn view_mut(&self) -> RwLockWriteGuard<'_, Option<Arc<View>>> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what is committed now.
    pub(crate) fn show(&self, view: Option<View>) {
        let (rows, bytes) = view.as_ref().map_or((0, 0), View::held);
        self.counters
            .held_rows
            .store(rows as u64, Ordering::Relaxed);
        self.counters
            .held_bytes
            .store(bytes as u64, Ordering::Relaxed);
        // What was seen before goes after the lock: it may be the last to hold it.
        let before = std::mem::replace(&mut *self.view_mut(), view.map(Arc::new));
        drop(before);
    }

    /// Why nothing can be read or written.
    pub(crate) fn why_not_open(&self) -> String {
        match &*self.health.borrow() {
            Health::Working => "the file is not open".into(),
            Health::Failed(reason) => format!("the file failed and must be opened anew: {reason}"),
            Health::Closed => "the store is closed".into(),
        }
    }

    /// A number above all that were given out, in this file, before.
    pub(crate) fn next_position(&self) -> u64 {
        self.position.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The last number given out.
    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// From now on numbers are above this one, too.
    pub(crate) fn position_past(&self, position: u64) {
        self.position.fetch_max(position, Ordering::AcqRel);
    }

    /// Tells those who wait.
    pub(crate) fn tell(&self, news: &News) {
        match news {
            News::Appended(session, entry) => {
                if let Some((key, version)) = entry {
                    self.entries.drop_up_to(key, *version);
                }
                self.signals.signal(session);
            }
            News::Mailed(session, lane, seq) => {
                self.letters.add(session, *lane);
                self.mail_queue.arrived(session, *seq);
            }
            News::Acknowledged(session, up_to, removed) => {
                self.letters.remove(session, *removed);
                self.mail_queue.acknowledged(session, *up_to);
            }
            News::TimerSet(session, epoch, at) => self.timers.set(session, *epoch, *at),
            News::TimerForgotten(session, epoch) => self.timers.forgotten(session, *epoch),
        }
    }

    /// Waits until the store does not work.
    pub(crate) async fn not_working(&self) -> String {
        let mut health = self.health.subscribe();
        // The sender lives as long as `self`.
        drop(health.wait_for(|health| *health != Health::Working).await);
        self.why_not_open()
    }

    /// Ends the waiting for places in the queue.
    pub(crate) fn stop_taking(&self) {
        self.places.close();
    }
}

/// What a port holds.
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    sender: Sender<Message>,
}

impl Engine {
    /// The ports' side of a writer that listens to `sender`.
    pub(crate) fn new(shared: Arc<Shared>, sender: Sender<Message>) -> Self {
        Self { shared, sender }
    }

    /// Has the writer run an operation, see [`Operation::new`].
    pub(crate) async fn write<T, F>(
        &self,
        promise: Promise,
        size_bytes: usize,
        run: F,
    ) -> Result<T, WriteError>
    where
        T: Send + 'static,
        F: FnMut(&mut Group<'_>) -> Result<Step<T>, Fault> + Send + 'static,
    {
        let places = Arc::clone(&self.shared.places);
        let Ok(place) = places.acquire_owned().await else {
            return Err(WriteError::Unavailable(self.shared.why_not_open()));
        };
        let (operation, answer) = Operation::new(promise, size_bytes, place, run);
        if self.sender.send(Message::Operation(operation)).is_err() {
            return Err(WriteError::Unavailable(self.shared.why_not_open()));
        }
        answer.await.unwrap_or_else(|_| {
            Err(WriteError::Unknown(
                "the writer ended before it answered".into(),
            ))
        })
    }

    /// Reads on the caller's thread: for a few rows only.
    ///
    /// A point read takes about 2 microseconds when its pages are cached by the database or the
    /// system, less than moving it to another thread costs. When they are not, the caller's thread
    /// waits for three or four page reads of the disk; that is accepted, because it happens once
    /// for each session after a start, and because it is bounded.
    pub(crate) fn read_here<T>(
        &self,
        read: impl FnOnce(Sight<'_>) -> Result<T, Fault>,
    ) -> Result<T, ReadError> {
        read_guarded(|| read(self.shared.view()?.sight()))
    }

    /// Reads on a thread made for waiting: for anything whose size is not known to be small.
    pub(crate) async fn read_apart<T: Send + 'static>(
        &self,
        read: impl FnOnce(Sight<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, ReadError> {
        let view = read_guarded(|| self.shared.view())?;
        self.apart(move || read(view.sight())).await
    }

    /// Reads the rows of a range in order, at most `limit`: the first ones on the caller's thread,
    /// which mostly is all, the rest on a thread made for waiting.
    pub(crate) async fn read_rows(
        &self,
        name: TableName,
        range: KeyRange,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, ReadError> {
        let (view, mut rows, rest) = read_guarded(|| {
            let view = self.shared.view()?;
            let first = view
                .sight()
                .scan(name, &range, limit, READ_HERE_BYTES_MAX)?;
            Ok((view, first.rows, first.rest))
        })?;
        if let Some(rest) = rest {
            let limit = limit.saturating_sub(rows.len());
            // The same view: the rest is of the same moment.
            let more = self
                .apart(move || view.sight().scan(name, &rest, limit, usize::MAX))
                .await?;
            rows.extend(more.rows);
        }
        Ok(rows)
    }

    /// Runs a read on a thread made for waiting.
    pub(crate) async fn apart<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, ReadError> {
        let permit = Arc::clone(&self.shared.reads_apart)
            .acquire_owned()
            .await
            .map_err(|closed| ReadError::Unavailable(closed.to_string()))?;
        let read = move || {
            // Given back by the thread, also when nobody waits for the answer any more.
            let _permit = permit;
            read_guarded(read)
        };
        tokio::task::spawn_blocking(read)
            .await
            .unwrap_or_else(|error| Err(ReadError::Unavailable(error.to_string())))
    }

    /// Asks the writer to end.
    pub(crate) fn ask_to_close(&self) {
        // A writer that is gone needs no asking.
        drop(self.sender.send(Message::Close));
    }

    /// What was done so far.
    pub(crate) fn stats(&self) -> Stats {
        let counters = &self.shared.counters;
        let seen = &self.shared.seen;
        let places_free = self.shared.places.available_permits();
        Stats {
            operations: counters.operations.load(Ordering::Relaxed),
            appends: counters.appends.load(Ordering::Relaxed),
            appended_bytes: counters.appended_bytes.load(Ordering::Relaxed),
            conflicts: counters.conflicts.load(Ordering::Relaxed),
            groups: counters.groups.load(Ordering::Relaxed),
            held_rows: counters.held_rows.load(Ordering::Relaxed),
            held_bytes: counters.held_bytes.load(Ordering::Relaxed),
            fsyncs: seen.fsyncs.load(Ordering::Relaxed),
            written_bytes: seen.written_bytes.load(Ordering::Relaxed),
            file_bytes: seen.length_bytes(),
            waiting: QUEUE_OPERATIONS_MAX.saturating_sub(places_free) as u64,
        }
    }
}
