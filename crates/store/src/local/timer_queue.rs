//! Which timer is due next, within one process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steadfast_core::id::{Epoch, SessionKey, Timestamp};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::lock;
use crate::clock::Clock;
use crate::timers::Due;

/// The clock is read again at least this often: it may be set, and it runs on while the machine
/// sleeps, which tokio's does not.
const CLOCK_LOOK: Duration = Duration::from_secs(60);

/// The queue behind [`crate::timers::Timers::next`].
pub struct TimerQueue {
    clock: Arc<dyn Clock>,
    silence_ms: u64,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    timers: BTreeMap<(SessionKey, Epoch), Timestamp>,
    by_time: BTreeSet<(Timestamp, SessionKey, Epoch)>,
}

impl TimerQueue {
    /// An empty queue; a timer that fired and was not acknowledged fires again after `silence`.
    pub fn new(clock: Arc<dyn Clock>, silence: Duration) -> Self {
        Self {
            clock,
            silence_ms: u64::try_from(silence.as_millis()).unwrap_or(u64::MAX),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Sets or moves a timer.
    pub fn set(&self, session: &SessionKey, epoch: Epoch, at: Timestamp) {
        lock(&self.state).set(session, epoch, at);
        self.changed.notify_waiters();
    }

    /// Forgets a timer.
    pub fn acknowledged(&self, due: &Due) {
        lock(&self.state).remove(&due.session, due.epoch);
    }

    /// Waits for a timer that is due. Dropped before it answers, it has taken nothing.
    pub async fn next(&self) -> Due {
        loop {
            // Made before looking: whatever changes from here on ends the wait.
            let changed = self.changed.notified();
            let wait = lock(&self.state).take(self.clock.now(), self.silence_ms);
            match wait {
                Wait::Over(due) => return due,
                Wait::For(duration) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = sleep(duration.min(CLOCK_LOOK)) => {}
                },
                Wait::ForChange => changed.await,
            }
        }
    }
}

enum Wait {
    Over(Due),
    For(Duration),
    ForChange,
}

impl State {
    fn take(&mut self, now: Timestamp, silence_ms: u64) -> Wait {
        let Some((at, session, epoch)) = self.by_time.first() else {
            return Wait::ForChange;
        };
        if *at > now {
            return Wait::For(Duration::from_millis(at.0 - now.0));
        }
        let due = Due {
            session: session.clone(),
            epoch: *epoch,
        };
        self.set(&due.session, due.epoch, now.plus_ms(silence_ms));
        Wait::Over(due)
    }

    fn set(&mut self, session: &SessionKey, epoch: Epoch, at: Timestamp) {
        self.remove(session, epoch);
        self.timers.insert((session.clone(), epoch), at);
        self.by_time.insert((at, session.clone(), epoch));
    }

    fn remove(&mut self, session: &SessionKey, epoch: Epoch) {
        let key = (session.clone(), epoch);
        if let Some(at) = self.timers.remove(&key) {
            let (session, epoch) = key;
            self.by_time.remove(&(at, session, epoch));
        }
    }
}
