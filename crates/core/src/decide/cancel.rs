//! A turn is ended on request: the running one, or one that waits.

use super::{Answer, Asked, Draft, end_turn};
use crate::event::{Event, Rejection, TurnOutcome, Verdict};
use crate::id::TurnId;

pub(super) fn decide(draft: &mut Draft, asked: &Asked<'_>, wanted: Option<TurnId>) -> Answer {
    let running = draft.session.turn.as_ref().map(|turn| turn.id);
    if running.is_some() && (wanted.is_none() || wanted == running) {
        end_turn::end(draft, TurnOutcome::Cancelled);
        return asked.settle(draft, Verdict::Done);
    }
    let queued = draft
        .session
        .queue
        .iter()
        .find(|queued| Some(queued.turn) == wanted);
    let Some(turn) = queued.map(|queued| queued.turn) else {
        return asked.refuse(draft, Rejection::TurnNotRunning);
    };
    draft.emit(Event::TurnEnded {
        turn,
        outcome: TurnOutcome::Cancelled,
    });
    asked.settle(draft, Verdict::Done)
}
