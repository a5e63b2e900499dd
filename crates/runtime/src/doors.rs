//! Doors: how the rest of the process reaches the owner of a session here.
//!
//! ```text
//!   admit, queue, timers, sweep --knock--> Door ==bounded channel==> Seat (held by the driver)
//!   load, follow  <--committed state, feed-- Door
//! ```
//!
//! The driver of an idle session is parked behind its door: the session stays in memory, owned, as
//! it is, and has no actor, no channel and no task until somebody knocks or a time has come.
//!
//! At most one seat exists for each session of this process. A seat that is dropped, however that
//! comes about, takes its door away; if its session was not let go properly, the session rests for a
//! while and is then opened again.

mod inbox;
mod lot;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor::{ActorCell, SpawnErr};
use steadfast_core::command::Command;
use steadfast_core::id::{Epoch, NodeId, SessionKey};
use steadfast_core::session::{Ownership, Session};
use steadfast_store::mailbox::MailSeq;
use thiserror::Error;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Duration, Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::actor;
use crate::agent::Drive;
use crate::driver::Start;
use crate::feed::Feed;
use crate::host::{Host, backoff};
use crate::sessions::{Admission, AdmitError};
use inbox::Hearing;
use lot::Lot;

pub(crate) use inbox::{Inbox, Unheard};

/// Something that an owner is asked.
#[derive(Debug)]
pub(crate) enum Knock {
    /// A client's command.
    Command {
        command: Box<Command>,
        /// Who is to run its turn, if the client says so.
        drive: Option<Drive>,
        reply: oneshot::Sender<Result<Admission, Refusal>>,
    },
    /// There is mail. Answered once all up to this letter is decided and committed.
    Mail {
        up_to: MailSeq,
        reply: oneshot::Sender<Result<MailSeq, Refusal>>,
    },
    /// The session may need an owner: a timer, a sweep. Answered once it has one, or needs none.
    Wake {
        /// The epoch of the timer that is due, if it is one.
        timer: Option<Epoch>,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    /// The log has an owner of this generation.
    Superseded { epoch: Epoch },
    /// The client whose request began the turn went away.
    ClientLeft,
    /// The node lets go of its sessions.
    Drain,
}

/// Why an owner did not answer a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is not, or no longer, the owner: look again.
    Again,
    /// Another node owns the session.
    Elsewhere(NodeId),
    /// The session is for the queue, and whoever takes it from there.
    ForTheQueue,
    /// It owns the session and lets go of it.
    Releasing,
    /// It cannot be done.
    Error(AdmitError),
}

/// The outside of a session that is in memory here.
pub(crate) struct Door {
    hearing: Mutex<Hearing>,
    /// `None` until the session was read.
    committed: Mutex<Option<Arc<Session>>>,
    /// Notified when the session was read.
    read: Notify,
    /// Cancelled when the seat is dropped. Wakes in the order of waiting, which a watch does not.
    gone: CancellationToken,
    pub(crate) feed: Arc<Feed>,
    /// Its take-over is decided and not known to be committed: it may stand in the log already.
    takes_over: AtomicBool,
}

impl Door {
    fn shown(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        // Changed by single assignments: a panic elsewhere means nothing here.
        self.committed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The committed state, if the session was read by now.
    pub(crate) fn committed(&self) -> Option<Arc<Session>> {
        self.shown().clone()
    }

    /// The committed state, once the session was read. `None`: its owner went before that.
    pub(crate) async fn opened(&self) -> Option<Arc<Session>> {
        loop {
            // Enabled before the look, so that nothing falls in between.
            let mut read = std::pin::pin!(self.read.notified());
            read.as_mut().enable();
            if let Some(session) = self.committed() {
                return Some(session);
            }
            tokio::select! { biased;
                () = read => {}
                () = self.gone() => return self.committed(),
            }
        }
    }

    /// Whether a node owns the session here, as far as is committed; one that is being read may.
    pub(crate) fn may_own(&self, node: &NodeId) -> bool {
        match self.shown().as_ref().map(|session| &session.ownership) {
            Some(Ownership::Owned { node: owner }) => owner == node,
            Some(Ownership::Never | Ownership::Released { .. }) => false,
            None => true,
        }
    }

    /// Whether a node owns the session here, and that is committed.
    pub(crate) fn owns(&self, node: &NodeId) -> bool {
        let committed = self.shown();
        let ownership = committed.as_ref().map(|session| &session.ownership);
        matches!(ownership, Some(Ownership::Owned { node: owner }) if owner == node)
    }

    /// Whether others that read in the log that a node owns the session may be right: they may see
    /// its take-over there before it does.
    pub(crate) fn may_be_owner(&self, node: &NodeId) -> bool {
        self.may_own(node) || self.takes_over.load(Ordering::Acquire)
    }

    /// Waits until the owner is gone.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

/// The inside of a session that is in memory here.
pub(crate) struct Seat {
    pub(crate) key: SessionKey,
    pub(crate) inbox: Inbox,
    pub(crate) door: Arc<Door>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) doors: Arc<Doors>,
    left_properly: bool,
    /// Dropped last: whoever waited then finds no door.
    _gone: DropGuard,
}

impl Seat {
    /// Says that the session needs nobody here any more: it may be opened again at any time.
    pub(crate) fn leave(&mut self) {
        self.left_properly = true;
    }

    /// Shows the committed state to the rest of the process.
    pub(crate) fn show(&self, committed: &Arc<Session>) {
        let before = self.door.shown().replace(Arc::clone(committed));
        if before.is_none() {
            self.door.read.notify_waiters();
        }
    }

    /// Says whether a take-over is on its way to the log.
    pub(crate) fn takes_over(&self, takes_over: bool) {
        self.door.takes_over.store(takes_over, Ordering::Release);
    }

    /// Whether many sessions are in memory, so that idle ones should go soon.
    pub(crate) fn is_pressed(&self) -> bool {
        self.doors.len() > self.doors.host.options.actors_relaxed_max
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.doors.remove(&self.key, self.left_properly);
        // Without its door: a follower that looks for the owner now finds the next one, or none.
        self.feed.end();
    }
}

/// What [`Doors::enter`] found or made.
pub(crate) enum Entered {
    /// The session is in memory.
    Present(Arc<Door>),
    /// It is now, and the seat must be given to a driver.
    Made(Arc<Door>, Seat),
}

/// Why a session was not brought into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum EnterError {
    /// The limit is reached.
    #[error("{0} sessions are in memory, which is the limit")]
    Full(usize),
    /// Its actor failed a moment ago.
    #[error("its actor failed; it is opened again in {0:?}")]
    Resting(Duration),
    /// The runtime is shut down.
    #[error("the node is shut down")]
    Closed,
}

/// All doors of this process.
pub(crate) struct Doors {
    host: Arc<Host>,
    keeper: ActorCell,
    state: Mutex<State>,
    lot: Lot,
    present: AtomicUsize,
    closed: AtomicBool,
    emptied: Notify,
    /// Notified when a session begins to rest.
    pub(crate) rested: Notify,
}

#[derive(Default)]
struct State {
    by_session: HashMap<SessionKey, Arc<Door>>,
    resting: BTreeMap<SessionKey, Rest>,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    failures: u32,
    until: Instant,
    /// Nobody opened it again yet.
    due: bool,
}

impl Doors {
    pub(crate) fn new(host: Arc<Host>, keeper: ActorCell) -> Self {
        Self {
            host,
            keeper,
            state: Mutex::default(),
            lot: Lot::default(),
            present: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            emptied: Notify::new(),
            rested: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Both maps are changed by single operations: a panic elsewhere means nothing here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The door of a session, if it is in memory.
    pub(crate) fn find(&self, key: &SessionKey) -> Option<Arc<Door>> {
        self.lock().by_session.get(key).cloned()
    }

    /// How many sessions are in memory.
    pub(crate) fn len(&self) -> usize {
        self.present.load(Ordering::Relaxed)
    }

    /// The door of a session; makes one if it is not in memory.
    pub(crate) fn enter(self: &Arc<Self>, key: &SessionKey) -> Result<Entered, EnterError> {
        let options = &self.host.options;
        let mut state = self.lock();
        if let Some(door) = state.by_session.get(key) {
            return Ok(Entered::Present(Arc::clone(door)));
        }
        if self.is_closed() {
            return Err(EnterError::Closed);
        }
        if state.by_session.len() >= options.actors_max {
            return Err(EnterError::Full(options.actors_max));
        }
        if let Some(rest) = state.resting.get_mut(key) {
            let left = rest.until.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Err(EnterError::Resting(left));
            }
            rest.due = false;
        }
        let (sender, inbox) = Inbox::new(options.door_commands_max);
        let gone = CancellationToken::new();
        let feed = Arc::new(Feed::new(
            key.clone(),
            Arc::clone(&self.host.stores.live),
            options.open_step_bytes_max,
        ));
        let door = Arc::new(Door {
            hearing: Mutex::new(Hearing::Driver(sender)),
            committed: Mutex::default(),
            read: Notify::new(),
            gone: gone.clone(),
            feed: Arc::clone(&feed),
            takes_over: AtomicBool::new(false),
        });
        state.by_session.insert(key.clone(), Arc::clone(&door));
        self.present
            .store(state.by_session.len(), Ordering::Relaxed);
        drop(state);
        let seat = Seat {
            key: key.clone(),
            inbox,
            door: Arc::clone(&door),
            feed,
            doors: Arc::clone(self),
            left_properly: false,
            _gone: gone.drop_guard(),
        };
        Ok(Entered::Made(door, seat))
    }

    /// Gives a session an actor.
    pub(crate) async fn spawn(&self, start: Start) -> Result<(), SpawnErr> {
        actor::spawn(Arc::clone(&self.host), start, self.keeper.clone()).await
    }

    fn remove(&self, key: &SessionKey, left_properly: bool) {
        let options = &self.host.options;
        let mut state = self.lock();
        let door = state.by_session.remove(key);
        if left_properly {
            state.resting.remove(key);
        } else if !self.is_closed() {
            let now = Instant::now();
            let before = state.resting.get(key).copied();
            // A session that ran well for long has its earlier failures forgiven.
            let recent = before.filter(|rest| now < rest.until + options.failed_rest_max * 10);
            let failures = recent.map_or(0, |rest| rest.failures).saturating_add(1);
            let wait = backoff(options.failed_rest_min, options.failed_rest_max, failures);
            let rest = Rest {
                failures,
                until: now + wait,
                due: true,
            };
            state.resting.insert(key.clone(), rest);
            self.rested.notify_one();
        }
        let empty = state.by_session.is_empty();
        self.present
            .store(state.by_session.len(), Ordering::Relaxed);
        drop(state);
        // Outside the lock: the last reference may drop a channel with questions in it.
        drop(door);
        if empty {
            self.emptied.notify_waiters();
        }
    }

    /// Sessions whose rest is over and that nobody opened since, and when the next rest ends.
    pub(crate) fn rested(&self) -> (Vec<SessionKey>, Option<Instant>) {
        let now = Instant::now();
        let state = self.lock();
        let due = state.resting.iter().filter(|(_, rest)| rest.due);
        let (over, later): (Vec<_>, Vec<_>) = due.partition(|(_, rest)| rest.until <= now);
        let keys = over.into_iter().map(|(key, _)| key.clone()).collect();
        (keys, later.into_iter().map(|(_, rest)| rest.until).min())
    }

    /// All doors, in the order of their sessions.
    pub(crate) fn all(&self) -> Vec<Arc<Door>> {
        let state = self.lock();
        let mut doors: Vec<_> = state.by_session.iter().collect();
        doors.sort_unstable_by_key(|(key, _)| *key);
        doors
            .into_iter()
            .map(|(_, door)| Arc::clone(door))
            .collect()
    }

    /// From now on no session is brought into memory.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits until no session is in memory.
    pub(crate) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            emptied.as_mut().enable();
            if self.lock().by_session.is_empty() {
                return;
            }
            emptied.await;
        }
    }
}
