//! A result comes from outside: from the client of its own call, or from an operator.

use super::{Answer, Asked, Draft};
use crate::call::CallState;
use crate::command::Settler;
use crate::content::CallOutput;
use crate::event::{Event, Rejection, Settlement, Verdict};
use crate::id::CallId;
use crate::replay::is_blocked;
use crate::texts;

pub(super) fn decide(
    draft: &mut Draft,
    asked: &Asked<'_>,
    call: CallId,
    output: &CallOutput,
    by: Settler,
) -> Answer {
    match taken(draft, call, output, by) {
        Ok(event) => {
            draft.emit(event);
            asked.settle(draft, Verdict::Done)
        }
        Err(reason) => asked.refuse(draft, reason),
    }
}

/// The fact that a result becomes, if its call waits for one from there.
pub(super) fn taken(
    draft: &Draft,
    call: CallId,
    output: &CallOutput,
    by: Settler,
) -> Result<Event, Rejection> {
    let state = draft.session.call(call).map(|call| &call.state);
    let output = output.clone();
    Ok(match (state, by) {
        (Some(CallState::AwaitingInput), Settler::Client | Settler::Operator) => {
            Event::InputGiven {
                call,
                answer: output.output,
            }
        }
        (Some(CallState::AwaitingClient), Settler::Client | Settler::Operator)
        | (Some(CallState::InDoubt { .. }), Settler::Operator) => Event::CallSettled {
            call,
            settlement: Settlement::Done,
            output,
        },
        (_, Settler::Operator) if draft.session.in_doubt.contains_key(&call) => {
            Event::CallResolved { call, output }
        }
        (None, _) if call.reply > draft.session.seq || call.epoch > draft.session.epoch => {
            return Err(Rejection::CallNotFound);
        }
        (Some(_) | None, Settler::Client | Settler::Operator) => {
            return Err(Rejection::CallNotWaiting);
        }
    })
}

/// An operator gives up asking: the model is told that the call may have happened. A later answer is
/// still taken.
pub(super) fn skip(draft: &mut Draft, asked: &Asked<'_>, id: CallId) -> Answer {
    let Some(call) = draft.session.call(id) else {
        return asked.refuse(draft, Rejection::CallNotWaiting);
    };
    if !matches!(call.state, CallState::InDoubt { .. }) {
        return asked.refuse(draft, Rejection::CallNotWaiting);
    }
    let settlement = Settlement::InDoubt;
    let detail = "an operator let the turn go on";
    let output = texts::without_outcome(settlement, call.triage.rule, detail);
    draft.emit(Event::CallSettled {
        call: id,
        settlement,
        output,
    });
    asked.settle(draft, Verdict::Done)
}

/// An operator knows that it did not happen, or accepts that it happens twice: it runs once more.
pub(super) fn retry(draft: &mut Draft, asked: &Asked<'_>, id: CallId) -> Answer {
    let Some(call) = draft.session.call(id) else {
        return asked.refuse(draft, Rejection::CallNotWaiting);
    };
    let CallState::InDoubt { attempt } = call.state else {
        return asked.refuse(draft, Rejection::CallNotWaiting);
    };
    if is_blocked(&draft.session, id) {
        return asked.refuse(draft, Rejection::CallBlocked);
    }
    let deadline = draft.now.plus_ms(call.triage.deadline_ms);
    draft.emit(Event::CallStarted {
        call: id,
        attempt: attempt + 1,
        deadline,
    });
    asked.settle(draft, Verdict::Done)
}
