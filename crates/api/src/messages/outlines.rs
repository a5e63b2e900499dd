//! Where the messages of recently read conversations stand, so that the next page does not read the
//! whole log again.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use steadfast_core::id::{Seq, SessionKey};

use super::fold::Fold;

/// Conversations that are remembered; the one that was not read for longest is forgotten.
const CONVERSATIONS_MAX: usize = 128;
/// Messages of all of them together; each takes some hundred bytes. Above it, as well.
const MESSAGES_MAX: usize = 500_000;

/// Outlines of conversations, the one that was read last at the end.
#[derive(Default)]
pub(crate) struct Outlines(Mutex<VecDeque<Known>>);

struct Known {
    key: SessionKey,
    /// The last event that is in it.
    through: Seq,
    fold: Fold,
}

impl Outlines {
    /// What is known of a conversation, and up to which event, not beyond `until`.
    pub(super) fn through(&self, key: &SessionKey, until: Seq) -> Option<(Seq, Fold)> {
        let known = self.known();
        let known = known.iter().find(|known| known.key == *key)?;
        (known.through <= until).then(|| (known.through, known.fold.clone()))
    }

    /// Remembers a conversation, unless more of it is known already.
    pub(super) fn keep(&self, key: &SessionKey, through: Seq, fold: Fold) {
        let mut all = self.known();
        let older = all.iter().position(|known| known.key == *key);
        let older = older.and_then(|position| all.remove(position));
        let newest = Known {
            key: key.clone(),
            through,
            fold,
        };
        all.push_back(
            older
                .filter(|known| known.through > through)
                .unwrap_or(newest),
        );
        let mut messages: usize = all.iter().map(|known| known.fold.len()).sum();
        while all.len() > CONVERSATIONS_MAX || (messages > MESSAGES_MAX && all.len() > 1) {
            let Some(oldest) = all.pop_front() else {
                return;
            };
            messages = messages.saturating_sub(oldest.fold.len());
        }
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::id::{SessionId, TenantId};

    use super::*;

    fn key(number: usize) -> SessionKey {
        SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new(format!("s{number}")).unwrap(),
        }
    }

    fn through(outlines: &Outlines, number: usize, until: u64) -> Option<Seq> {
        let known = outlines.through(&key(number), Seq(until));
        known.map(|(through, _)| through)
    }

    #[test]
    fn the_most_that_is_known_is_kept_and_never_given_beyond_what_is_asked() {
        let outlines = Outlines::default();
        let keep = |seq| outlines.keep(&key(1), Seq(seq), Fold::keeping(0..0));
        keep(7);
        keep(5);
        assert_eq!(through(&outlines, 1, 9), Some(Seq(7)));
        assert_eq!(through(&outlines, 1, 7), Some(Seq(7)));
        assert_eq!(through(&outlines, 1, 6), None);
        assert_eq!(through(&outlines, 2, 9), None);
    }

    #[test]
    fn the_conversation_that_was_not_read_for_longest_is_forgotten() {
        let outlines = Outlines::default();
        for number in 0..CONVERSATIONS_MAX {
            outlines.keep(&key(number), Seq(1), Fold::keeping(0..0));
        }
        outlines.keep(&key(0), Seq(2), Fold::keeping(0..0));
        outlines.keep(&key(CONVERSATIONS_MAX), Seq(1), Fold::keeping(0..0));
        assert_eq!(through(&outlines, 0, 9), Some(Seq(2)));
        assert_eq!(through(&outlines, 1, 9), None);
        assert_eq!(through(&outlines, 2, 9), Some(Seq(1)));
    }
}
