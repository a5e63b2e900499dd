//! The check of a `never` tool says whether an attempt happened.

use super::{Draft, calls};
use crate::call::CallState;
use crate::event::{Event, Settlement};
use crate::id::CallId;
use crate::input::CheckAnswer;
use crate::texts;

pub(super) fn decide(draft: &mut Draft, id: CallId, attempt: u32, answer: &CheckAnswer) {
    let Some(call) = draft.session.call(id) else {
        return;
    };
    if call.state != (CallState::Checking { attempt }) {
        return;
    }
    match answer {
        CheckAnswer::Done(output) => {
            let (settlement, output) = (Settlement::Done, output.clone());
            draft.emit(Event::CallSettled {
                call: id,
                settlement,
                output,
            });
        }
        CheckAnswer::NotDone => {
            let deadline = draft.now.plus_ms(call.triage.deadline_ms);
            draft.emit(Event::CallStarted {
                call: id,
                attempt: attempt + 1,
                deadline,
            });
        }
        CheckAnswer::Withdrawn if call.runs_under_claim() => {
            calls::settle(draft, id, Settlement::Unreachable, texts::NO_WORKER);
        }
        CheckAnswer::Withdrawn | CheckAnswer::Unknown => calls::doubt(draft, id),
    }
}
