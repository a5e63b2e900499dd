//! A queued message is taken back.

use super::{Answer, Asked, Draft};
use crate::event::{Event, Rejection, TurnOutcome, Verdict};
use crate::id::MessageId;

pub(super) fn decide(draft: &mut Draft, asked: &Asked<'_>, message: &MessageId) -> Answer {
    let queued = draft
        .session
        .queue
        .iter()
        .find(|queued| queued.message == *message);
    let Some(turn) = queued.map(|queued| queued.turn) else {
        let receipt = draft.session.receipts.get(message);
        let known = receipt.is_some_and(|receipt| receipt.progress.is_some());
        let reason = if known {
            Rejection::MessageNotQueued
        } else {
            Rejection::MessageNotFound
        };
        return asked.refuse(draft, reason);
    };
    draft.emit(Event::TurnEnded {
        turn,
        outcome: TurnOutcome::Cancelled,
    });
    asked.settle(draft, Verdict::Done)
}
