//! How many letters wait, for sessions that have any.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use steadfast_core::id::SessionKey;
use steadfast_store::mailbox::Lane;

use crate::operation::LaneCounts;

/// Counts of all mailboxes that are not empty, as committed.
///
/// Kept in memory because each letter is counted against its lane's bound, and because most
/// mailboxes are empty most of the time: whoever asks for their letters needs no read.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    sessions: Mutex<HashMap<SessionKey, LaneCounts>>,
}

impl Letters {
    /// How many letters a session has.
    pub(crate) fn of(&self, session: &SessionKey) -> LaneCounts {
        self.lock().get(session).copied().unwrap_or_default()
    }

    /// Whether a session has letters.
    pub(crate) fn any(&self, session: &SessionKey) -> bool {
        self.lock().contains_key(session)
    }

    /// One more.
    pub(crate) fn add(&self, session: &SessionKey, lane: Lane) {
        let mut sessions = self.lock();
        match sessions.get_mut(session) {
            Some(counts) => *counts.of(lane) += 1,
            None => {
                let mut counts = LaneCounts::default();
                *counts.of(lane) = 1;
                sessions.insert(session.clone(), counts);
            }
        }
    }

    /// So many fewer.
    pub(crate) fn remove(&self, session: &SessionKey, removed: LaneCounts) {
        let mut sessions = self.lock();
        if let Some(counts) = sessions.get_mut(session) {
            *counts = counts.minus(removed);
            if *counts == LaneCounts::default() {
                sessions.remove(session);
            }
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Poison is passed over: no code that holds the lock leaves the map half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, LaneCounts>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
