//! The last Record of sessions that were written to not long ago.
//!
//! An append needs it, and the writer is the only one that changes it, so it need not be looked up
//! each time at the end of a range. What is forgotten is looked up.

use std::collections::HashMap;

use steadfast_core::id::SessionKey;
use steadfast_store::log::Tail;

use super::row::RowHead;

/// Sessions of one generation; two are kept. About 200 bytes each.
const SESSIONS_MAX: usize = 8_192;

/// The number of a session's last Record, and what is kept beside it.
pub(crate) type Last = (Tail, RowHead);

/// Last Records, as they are committed.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    young: HashMap<SessionKey, Last>,
    old: HashMap<SessionKey, Last>,
}

impl Tails {
    /// A session's last Record, if it is known.
    pub(crate) fn of(&self, session: &SessionKey) -> Option<&Last> {
        self.young.get(session).or_else(|| self.old.get(session))
    }

    /// Notes what a group appended. The older generation goes when the younger one is full.
    pub(crate) fn note(&mut self, appended: HashMap<SessionKey, Last>) {
        if self.young.len().saturating_add(appended.len()) > SESSIONS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.extend(appended);
    }

    /// Forgets all: the file may not hold what was noted.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_core::id::{Epoch, NodeId, Seq, SessionId, TenantId};
    use steadfast_protocol::record::RecordHash;

    fn session(number: usize) -> SessionKey {
        SessionKey {
            tenant: TenantId::new("default").unwrap(),
            session: SessionId::new(format!("s-{number}")).unwrap(),
        }
    }

    fn last(tail: u64) -> Last {
        let head = RowHead {
            first_seq: Seq(tail),
            last_seq: Seq(tail),
            epoch: Epoch(1),
            hash: RecordHash([0; 32]),
            node: NodeId::new("node").unwrap(),
        };
        (Tail(tail), head)
    }

    #[test]
    fn the_newest_is_told_and_what_is_kept_is_bounded() {
        let mut tails = Tails::default();
        tails.note(HashMap::from([(session(0), last(1))]));
        tails.note(
            (1..SESSIONS_MAX)
                .map(|number| (session(number), last(1)))
                .collect(),
        );
        tails.note(HashMap::from([
            (session(0), last(2)),
            (session(9_000), last(1)),
        ]));
        assert_eq!(tails.of(&session(0)), Some(&last(2)));
        assert_eq!(tails.of(&session(1)), Some(&last(1)));
        for round in 0..3 {
            let first = 10_000 * (round + 1);
            let sessions = first..first + SESSIONS_MAX;
            tails.note(sessions.map(|number| (session(number), last(1))).collect());
        }
        assert_eq!(tails.of(&session(1)), None);
        assert!(tails.young.len() + tails.old.len() <= 2 * SESSIONS_MAX);
    }
}
