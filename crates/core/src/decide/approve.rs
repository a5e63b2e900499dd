//! A person answers an approval.

use super::{Answer, Asked, Draft, calls};
use crate::call::CallState;
use crate::event::{Event, Rejection, Settlement, Verdict};
use crate::id::ApprovalId;
use crate::input::{CallTriage, Gate};
use crate::limits::DETAIL_BYTES_MAX;
use crate::texts;

/// The answer that was given.
pub(super) struct Approval<'a> {
    pub(super) id: ApprovalId,
    pub(super) approved: bool,
    pub(super) reason: &'a Option<String>,
    pub(super) triage: &'a Option<CallTriage>,
}

impl Approval<'_> {
    fn reason(&self) -> Option<String> {
        let reason = self.reason.as_deref();
        reason.map(|reason| texts::cut(reason, DETAIL_BYTES_MAX))
    }
}

pub(super) fn decide(draft: &mut Draft, asked: &Asked<'_>, answer: &Approval<'_>) -> Answer {
    match take(draft, answer) {
        Ok(is_first) => {
            let verdict = asked.settle(draft, Verdict::Done);
            if is_first {
                follow(draft, answer);
            }
            verdict
        }
        Err(reason) => asked.refuse(draft, reason),
    }
}

/// Records an answer; `false`: the same was said before.
pub(super) fn take(draft: &mut Draft, answer: &Approval<'_>) -> Result<bool, Rejection> {
    let call = answer.id.0;
    let waits = draft
        .session
        .call(call)
        .is_some_and(|call| matches!(call.state, CallState::AwaitingApproval { .. }));
    if !waits {
        return match draft.session.approvals.get(&call) {
            Some(&before) if before == Some(answer.approved) => Ok(false),
            Some(_) => Err(Rejection::ApprovalDecided),
            None => Err(Rejection::ApprovalNotFound),
        };
    }
    draft.emit(Event::ApprovalDecided {
        approval: answer.id,
        approved: answer.approved,
        reason: answer.reason(),
        triage: answer.triage.clone().filter(|_| answer.approved),
    });
    Ok(true)
}

/// What a recorded answer does to its call at once.
pub(super) fn follow(draft: &mut Draft, answer: &Approval<'_>) {
    let call = answer.id.0;
    if !answer.approved {
        let reason = answer.reason().unwrap_or_default();
        calls::settle(draft, call, Settlement::Denied, &reason);
    } else if let Some(CallTriage {
        gate: Gate::Refused { output },
        ..
    }) = answer.triage
    {
        // The tool, its schema or its policy changed since the question was asked.
        let (settlement, output) = (Settlement::Refused, output.clone().into());
        draft.emit(Event::CallSettled {
            call,
            settlement,
            output,
        });
    }
}
