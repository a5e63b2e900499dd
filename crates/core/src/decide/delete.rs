//! The session is removed: its turn is ended, its outbox worked off, then it is gone.

use super::{Answer, Asked, Draft, end_turn};
use crate::event::{Event, TurnOutcome, Verdict};
use crate::id::TurnId;

pub(super) fn decide(draft: &mut Draft, asked: &Asked<'_>) -> Answer {
    draft.emit(Event::DeletionStarted);
    let answer = asked.settle(draft, Verdict::Done);
    end_turn::end(draft, TurnOutcome::Cancelled);
    let queued: Vec<TurnId> = draft
        .session
        .queue
        .iter()
        .map(|queued| queued.turn)
        .collect();
    for turn in queued {
        draft.emit(Event::TurnEnded {
            turn,
            outcome: TurnOutcome::Cancelled,
        });
    }
    answer
}
