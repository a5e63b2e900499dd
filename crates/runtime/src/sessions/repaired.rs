//! Which parts of which logs no longer count, for readers that hold no state of the session.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use imbl::Vector;
use steadfast_core::id::{Seq, SessionKey};
use steadfast_core::session::{LostPart, Session};

/// Repaired sessions that this process read. There are as many as an operator repaired, each by its
/// own command, so few.
#[derive(Default)]
pub(super) struct RepairedSessions {
    lost: Mutex<HashMap<SessionKey, Vector<LostPart>>>,
}

impl RepairedSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Vector<LostPart>>> {
        // Changed by single operations: a panic elsewhere means nothing here.
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what the state of a session says.
    pub(super) fn note(&self, session: &Session) {
        if !session.lost.is_empty() {
            self.lock()
                .insert(session.key.clone(), session.lost.clone());
        }
    }

    /// The parts that no longer count.
    pub(super) fn of(&self, key: &SessionKey) -> Vector<LostPart> {
        self.lock().get(key).cloned().unwrap_or_default()
    }
}

/// Where reading goes on that would begin with `seq`.
pub(super) fn beyond(lost: &Vector<LostPart>, seq: Seq) -> Seq {
    let inside = |part: &&LostPart| part.after < seq && seq < part.before;
    lost.iter().find(inside).map_or(seq, |part| part.before)
}
