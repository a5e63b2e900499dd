//! One followed session: what comes is encoded once and given to all its followers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use futures_util::StreamExt;
use steadfast_core::id::{Seq, SessionKey};
use steadfast_protocol::live::LiveFrame;
use steadfast_protocol::record::Record;
use steadfast_runtime::sessions::{Followed, Follower};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use super::backlog::Backlog;
use super::frame::{Committed, LivePiece};
use crate::error::{ErrorCode, Problem};

/// News in flight to one follower; who is slower joins again at its cursor.
const NEWS_MAX: usize = 256;
/// Recent Records kept for who joins, at most.
const RECENT_RECORDS_MAX: usize = 64;
/// Records above this are only announced: many of them in flight would fill the memory, and who
/// listens finds them among the recent ones.
const LARGE_BYTES: usize = 16 * 1024;
/// Bytes of recent Records kept, at most.
const RECENT_BYTES_MAX: usize = 1024 * 1024;

/// Something new in a session.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// Committed events.
    Committed(Arc<Committed>),
    /// A large Record was committed: [`Hub::recent_after`] has it.
    Large,
    /// A frame of the open step.
    Live(Bytes),
    /// Nothing comes any more; why, if it is an error.
    End(Option<Problem>),
}

/// All sessions that somebody follows on this node.
#[derive(Default)]
pub(crate) struct Hubs {
    by_session: Mutex<HashMap<SessionKey, Weak<Hub>>>,
}

/// A followed session; lives as long as somebody follows it.
pub(crate) struct Hub {
    key: SessionKey,
    hubs: Weak<Hubs>,
    shared: Arc<Shared>,
    upstream: JoinHandle<()>,
}

struct Shared {
    /// Changed and broadcast from under one lock, so that who joins misses and repeats nothing.
    state: Mutex<State>,
    news: broadcast::Sender<News>,
}

struct State {
    /// Number of the last event broadcast, or where the hub began.
    seq: Seq,
    recent: VecDeque<Arc<Committed>>,
    recent_bytes: usize,
    backlog: Backlog,
    ended: Option<Option<Problem>>,
}

impl State {
    /// Number of the first event that is kept here, or would be if it came next.
    fn first_kept(&self) -> Seq {
        let oldest = self.recent.front();
        oldest.map_or(self.seq.next(), |committed| committed.first_seq)
    }
}

/// A place in the broadcast, with what was sent before it.
pub(crate) struct Joined {
    pub(crate) news: broadcast::Receiver<News>,
    /// Committed events that may be newer than the cursor, in order.
    pub(crate) recent: Vec<Arc<Committed>>,
    /// What was shown of the open step.
    pub(crate) backlog: Vec<Bytes>,
}

/// Why a follower could not join.
pub(crate) enum JoinError {
    /// Its cursor is older than what is kept here: it must first read the log up to this event.
    Behind(Seq),
    /// The hub has ended, for this reason.
    Ended(Option<Problem>),
}

impl Hubs {
    /// The hub of a session; makes one that begins after the event `seq`, if there is none.
    pub(crate) fn of(
        self: &Arc<Self>,
        key: &SessionKey,
        seq: Seq,
        follow: impl FnOnce(Seq) -> Follower,
    ) -> Arc<Hub> {
        // Declared before the lock, so dropped after it: dropping a hub takes the lock.
        let present;
        let mut by_session = lock(&self.by_session);
        present = by_session.get(key).and_then(Weak::upgrade);
        if let Some(hub) = present.as_ref().filter(|hub| !hub.has_ended()) {
            return Arc::clone(hub);
        }
        let (news, _) = broadcast::channel(NEWS_MAX);
        let state = State {
            seq,
            recent: VecDeque::new(),
            recent_bytes: 0,
            backlog: Backlog::default(),
            ended: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            news,
        });
        let hub = Arc::new(Hub {
            key: key.clone(),
            hubs: Arc::downgrade(self),
            upstream: tokio::spawn(pump(Arc::clone(&shared), follow(seq))),
            shared,
        });
        by_session.insert(key.clone(), Arc::downgrade(&hub));
        hub
    }

    /// How many sessions are followed.
    pub(crate) fn count(&self) -> usize {
        lock(&self.by_session).len()
    }
}

impl Hub {
    /// Joins the broadcast after the event `cursor`.
    pub(crate) fn join(&self, cursor: Seq) -> Result<Joined, JoinError> {
        let state = lock(&self.shared.state);
        if let Some(reason) = &state.ended {
            return Err(JoinError::Ended(reason.clone()));
        }
        let first_kept = state.first_kept();
        if cursor.next() < first_kept {
            return Err(JoinError::Behind(Seq(first_kept.0.saturating_sub(1))));
        }
        let backlog = state
            .backlog
            .frames()
            .map_err(|error| JoinError::Ended(Some(not_encoded(&error))))?;
        Ok(Joined {
            news: self.shared.news.subscribe(),
            recent: state.recent.iter().cloned().collect(),
            backlog,
        })
    }

    /// The recent Records after the event `cursor`; `None`: some of them are no longer kept.
    pub(crate) fn recent_after(&self, cursor: Seq) -> Option<Vec<Arc<Committed>>> {
        let state = lock(&self.shared.state);
        if cursor.next() < state.first_kept() {
            return None;
        }
        let recent = state.recent.iter();
        let newer = recent.filter(|committed| committed.last_seq > cursor);
        Some(newer.cloned().collect())
    }

    fn has_ended(&self) -> bool {
        lock(&self.shared.state).ended.is_some()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.upstream.abort();
        let Some(hubs) = self.hubs.upgrade() else {
            return;
        };
        let mut by_session = lock(&hubs.by_session);
        // A new hub of the same session may already stand in this one's place.
        let gone = by_session
            .get(&self.key)
            .is_some_and(|hub| hub.strong_count() == 0);
        if gone {
            by_session.remove(&self.key);
        }
    }
}

async fn pump(shared: Arc<Shared>, mut follower: Follower) {
    let reason = loop {
        let broadcast = match follower.next().await {
            Some(Ok(Followed::Record { record, .. })) => shared.committed(&record),
            Some(Ok(Followed::Live(frame))) => shared.live(&frame),
            Some(Ok(Followed::CaughtUp { .. })) => Ok(()),
            Some(Err(error)) => break Some(error.into()),
            None => break None,
        };
        if let Err(error) = broadcast {
            break Some(not_encoded(&error));
        }
    };
    let mut state = lock(&shared.state);
    state.ended = Some(reason.clone());
    // Without a receiver there is nobody to tell.
    let _ = shared.news.send(News::End(reason));
}

impl Shared {
    fn committed(&self, record: &Record) -> Result<(), serde_json::Error> {
        let committed = Arc::new(Committed::of(record)?);
        let mut state = lock(&self.state);
        if committed.last_seq <= state.seq {
            return Ok(());
        }
        state.seq = committed.last_seq;
        for event in record.entries.iter().flat_map(|entry| &entry.events) {
            state.backlog.commit(event);
        }
        state.recent_bytes += committed.len();
        state.recent.push_back(Arc::clone(&committed));
        while state.recent.len() > RECENT_RECORDS_MAX || state.recent_bytes > RECENT_BYTES_MAX {
            let Some(oldest) = state.recent.pop_front() else {
                break;
            };
            state.recent_bytes = state.recent_bytes.saturating_sub(oldest.len());
        }
        let _ = self.news.send(if committed.len() > LARGE_BYTES {
            News::Large
        } else {
            News::Committed(committed)
        });
        Ok(())
    }

    fn live(&self, frame: &LiveFrame) -> Result<(), serde_json::Error> {
        let mut state = lock(&self.state);
        if !state.backlog.push(frame) {
            return Ok(());
        }
        let piece = LivePiece {
            epoch: frame.epoch,
            turn: frame.turn,
            step: frame.step,
            attempt: frame.attempt,
            first_n: None,
            n: frame.n,
            delta: &frame.delta,
        };
        let _ = self.news.send(News::Live(piece.frame()?));
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in these locks can be left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_encoded(error: &serde_json::Error) -> Problem {
    tracing::error!(%error, "event could not be encoded");
    Problem::new(ErrorCode::Internal, "an event could not be encoded")
}
