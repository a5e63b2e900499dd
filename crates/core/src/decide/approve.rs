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

pub(super) fn decide(draft: &mut Draft, asked: &Asked<'_>, answer: Approval<'_>) -> Answer {
    let call = answer.id.0;
    let waits = draft
        .session
        .call(call)
        .is_some_and(|call| matches!(call.state, CallState::AwaitingApproval { .. }));
    if !waits {
        return match draft.session.approvals.get(&call) {
            Some(&before) if before == Some(answer.approved) => asked.settle(draft, Verdict::Done),
            Some(_) => asked.refuse(draft, Rejection::ApprovalDecided),
            None => asked.refuse(draft, Rejection::ApprovalNotFound),
        };
    }
    let reason = answer
        .reason
        .as_deref()
        .map(|reason| texts::cut(reason, DETAIL_BYTES_MAX));
    let triage = answer.triage.clone().filter(|_| answer.approved);
    draft.emit(Event::ApprovalDecided {
        approval: answer.id,
        approved: answer.approved,
        reason: reason.clone(),
        triage: triage.clone(),
    });
    let verdict = asked.settle(draft, Verdict::Done);
    if !answer.approved {
        calls::settle(
            draft,
            call,
            Settlement::Denied,
            reason.as_deref().unwrap_or_default(),
        );
    } else if let Some(CallTriage {
        gate: Gate::Refused { output },
        ..
    }) = triage
    {
        // The tool, its schema or its policy changed since the question was asked.
        let (settlement, output) = (Settlement::Refused, output.into());
        draft.emit(Event::CallSettled {
            call,
            settlement,
            output,
        });
    }
    verdict
}
