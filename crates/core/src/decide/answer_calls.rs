//! Several answers come at once: one decision, so that no crash leaves a part of them.

use super::approve::{self, Approval};
use super::{Answer, Asked, Draft, settle_call};
use crate::command::{CallAnswer, Settler};
use crate::event::{Rejection, Verdict};
use crate::limits::ANSWERS_PER_COMMAND_MAX;

/// The first answer to a call counts, whoever gave it: one that comes too late does not keep the
/// others from counting.
pub(super) fn decide(draft: &mut Draft, asked: &Asked<'_>, answers: &[CallAnswer]) -> Answer {
    let mut refused = None;
    let mut counts = false;
    let mut recorded = Vec::new();
    for answer in answers.iter().take(ANSWERS_PER_COMMAND_MAX) {
        let taken = match answer {
            CallAnswer::Approval {
                approval,
                approved,
                reason,
                triage,
            } => {
                let approval = Approval {
                    id: *approval,
                    approved: *approved,
                    reason,
                    triage,
                };
                approve::take(draft, &approval).map(|is_first| {
                    recorded.extend(is_first.then_some(approval));
                })
            }
            CallAnswer::Result { call, output } => {
                settle_call::taken(draft, *call, output, Settler::Client)
                    .map(|event| draft.emit(event))
            }
        };
        match taken {
            Ok(()) => counts = true,
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    if !counts {
        return asked.refuse(draft, refused.unwrap_or(Rejection::CallNotWaiting));
    }
    let verdict = asked.settle(draft, Verdict::Done);
    for approval in &recorded {
        approve::follow(draft, approval);
    }
    verdict
}
