//! What several inputs do to a call.

use super::Draft;
use crate::call::Call;
use crate::command::Digest;
use crate::event::{Event, Notice, Settlement};
use crate::id::{ApprovalId, CallId};
use crate::input::{CallTriage, Gate, InDoubtPolicy};
use crate::replay::may_start;
use crate::texts;

/// What follows from a call's triage at once: a refusal, an approval request, or nothing yet.
pub(super) fn gate(draft: &mut Draft, id: CallId, triage: &CallTriage) {
    match &triage.gate {
        Gate::Open => {}
        Gate::Approval { expires_in_ms } => {
            let input_digest = draft.session.call(id).map_or(Digest(0), input_digest);
            let expires_at = expires_in_ms.map(|ms| draft.now.plus_ms(ms));
            let approval = ApprovalId(id);
            draft.emit(Event::ApprovalRequested {
                approval,
                input_digest,
                expires_at,
            });
        }
        Gate::Refused { output } => {
            let (settlement, output) = (Settlement::Refused, output.clone().into());
            draft.emit(Event::CallSettled {
                call: id,
                settlement,
                output,
            });
        }
    }
}

fn input_digest(call: &Call) -> Digest {
    Digest::of(&serde_json::to_vec(&call.input).unwrap_or_default())
}

/// Starts a call that waits for its slot, if nothing exclusive is in the way.
pub(super) fn start_with_slot(draft: &mut Draft, id: CallId) {
    if !may_start(&draft.session, id) {
        return;
    }
    let Some(call) = draft.session.call(id) else {
        return;
    };
    let deadline = draft.now.plus_ms(call.triage.deadline_ms);
    // One that asked something goes on in another attempt.
    let asked = call.question.as_ref().map_or(0, |asked| asked.attempt);
    draft.emit(Event::CallStarted {
        call: id,
        attempt: asked + 1,
        deadline,
    });
}

/// A `never` call was cut off: its tool is asked, if it can be.
pub(super) fn ask_or_doubt(draft: &mut Draft, call: CallId, attempt: u32, has_check: bool) {
    if has_check {
        draft.emit(Event::CheckRequested { call, attempt });
    } else {
        doubt(draft, call);
    }
}

/// Nobody knows: the model is told, or the turn waits to be told.
pub(super) fn doubt(draft: &mut Draft, id: CallId) {
    let Some(call) = draft.session.call(id) else {
        return;
    };
    match call.triage.in_doubt {
        InDoubtPolicy::Wait => draft.emit(Event::CallDoubted { call: id }),
        InDoubtPolicy::TellModel => {
            let settlement = Settlement::InDoubt;
            let output = texts::without_outcome(settlement, call.triage.rule, "");
            draft.emit(Event::CallSettled {
                call: id,
                settlement,
                output,
            });
        }
    }
}

/// A job that may stand in the tool queue is not wanted any more: that reaches it surely.
pub(super) fn cancel_job(draft: &mut Draft, call: &Call, attempt: u32) {
    let number = draft.session.notices + 1;
    let notice = Notice::CancelJob {
        call: call.id,
        attempt,
        tool: call.tool.clone(),
        under_claim: call.runs_under_claim(),
        agent: call.triage.agent.clone(),
    };
    draft.emit(Event::NoticePosted { number, notice });
}

/// Ends a call that nobody will answer, with the words for it.
pub(super) fn settle(draft: &mut Draft, id: CallId, settlement: Settlement, detail: &str) {
    let Some(call) = draft.session.call(id) else {
        return;
    };
    let output = texts::without_outcome(settlement, call.triage.rule, detail);
    draft.emit(Event::CallSettled {
        call: id,
        settlement,
        output,
    });
}
