//! Which session with mail is announced next, within one process.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use steadfast_core::id::SessionKey;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::lock;
use crate::mailbox::{Delivery, GIVE_BACK_DELAY_MAX, MailSeq};

/// The queue behind [`crate::mailbox::Mailbox::next`].
///
/// A session is due when it has a letter that was never announced, when an announcement was given
/// back and its delay is over, or when an announcement met only silence. Due sessions come first
/// in, first out.
#[derive(Debug)]
pub struct MailQueue {
    silence: Duration,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<SessionKey, Entry>,
    by_due: BTreeMap<Place, SessionKey>,
    places: u64,
}

/// When a session is due, and its rank among those of the same instant.
type Place = (Instant, u64);

#[derive(Debug)]
struct Entry {
    newest: MailSeq,
    announced: MailSeq,
    deliveries: u64,
    place: Place,
}

impl MailQueue {
    /// An empty queue; an announcement that is neither acknowledged nor given back comes again
    /// after `silence`.
    pub fn new(silence: Duration) -> Self {
        Self {
            silence,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// A letter stands in a session's mailbox.
    pub fn arrived(&self, session: &SessionKey, seq: MailSeq) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        match state.sessions.get_mut(session) {
            Some(entry) => {
                entry.newest = entry.newest.max(seq);
                let waits_already = entry.place.0 <= now;
                if entry.newest > entry.announced && !waits_already {
                    state.move_to(session, now);
                }
            }
            None => {
                let place = state.place(now);
                let entry = Entry {
                    newest: seq,
                    announced: MailSeq::default(),
                    deliveries: 0,
                    place,
                };
                state.sessions.insert(session.clone(), entry);
                state.by_due.insert(place, session.clone());
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// A session's letters up to and including `up_to` were removed.
    pub fn acknowledged(&self, session: &SessionKey, up_to: MailSeq) {
        let mut state = lock(&self.state);
        let Some(entry) = state.sessions.get(session) else {
            return;
        };
        if entry.newest <= up_to {
            let place = entry.place;
            state.by_due.remove(&place);
            state.sessions.remove(session);
        }
    }

    /// An announcement was given back, to be made again after `delay`.
    pub fn give_back(&self, delivery: &Delivery, delay: Duration) {
        let again_at = Instant::now() + delay.min(GIVE_BACK_DELAY_MAX);
        let mut state = lock(&self.state);
        let Some(entry) = state.sessions.get(&delivery.session) else {
            return;
        };
        let newer_is_out = delivery.up_to < entry.announced;
        let unannounced = entry.newest > entry.announced;
        if unannounced || (newer_is_out && entry.place.0 <= again_at) {
            return;
        }
        state.move_to(&delivery.session, again_at);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits for a session that is due. Dropped before it answers, it has taken nothing.
    pub async fn next(&self) -> Delivery {
        loop {
            // Made before looking: whatever changes from here on ends the wait.
            let changed = self.changed.notified();
            let wait = lock(&self.state).take(Instant::now(), self.silence);
            match wait {
                Wait::Over(delivery) => return delivery,
                Wait::Until(instant) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = sleep_until(instant) => {}
                },
                Wait::ForChange => changed.await,
            }
        }
    }
}

enum Wait {
    Over(Delivery),
    Until(Instant),
    ForChange,
}

impl State {
    fn take(&mut self, now: Instant, silence: Duration) -> Wait {
        let Some((&(due, _), session)) = self.by_due.first_key_value() else {
            return Wait::ForChange;
        };
        if due > now {
            return Wait::Until(due);
        }
        let session = session.clone();
        self.move_to(&session, now + silence);
        let Some(entry) = self.sessions.get_mut(&session) else {
            return Wait::ForChange;
        };
        let is_new = entry.newest > entry.announced;
        entry.deliveries = if is_new { 1 } else { entry.deliveries + 1 };
        entry.announced = entry.newest;
        Wait::Over(Delivery {
            session,
            up_to: entry.announced,
            deliveries: entry.deliveries,
        })
    }

    fn move_to(&mut self, session: &SessionKey, due: Instant) {
        let place = self.place(due);
        if let Some(entry) = self.sessions.get_mut(session) {
            self.by_due.remove(&entry.place);
            entry.place = place;
            self.by_due.insert(place, session.clone());
        }
    }

    fn place(&mut self, due: Instant) -> Place {
        self.places += 1;
        (due, self.places)
    }
}
