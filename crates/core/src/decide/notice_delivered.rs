//! A notice of the outbox reached the outside, or never will.

use super::Draft;
use crate::event::{Event, Notice};
use crate::limits::DETAIL_BYTES_MAX;
use crate::texts;

pub(super) fn decide(draft: &mut Draft, number: u64, withdrawn: bool) {
    let Some(notice) = draft.session.outbox.get(&number) else {
        return;
    };
    // Its turn ended without waiting for this: until now it was in doubt.
    let resolved = match *notice {
        Notice::CancelJob {
            call, under_claim, ..
        } => (withdrawn && under_claim).then_some(call),
        Notice::AnswerCall { .. } | Notice::ReportTurn { .. } => None,
    };
    draft.emit(Event::NoticeDelivered { number });
    if let Some(call) = resolved.filter(|call| draft.session.in_doubt.contains_key(call)) {
        let output = texts::withdrawn();
        draft.emit(Event::CallResolved { call, output });
    }
}

/// Only what the outside is told for its convenience is ever given up.
pub(super) fn dropped(draft: &mut Draft, number: u64, detail: &str) {
    match draft.session.outbox.get(&number) {
        Some(Notice::ReportTurn { .. }) => {
            let detail = texts::cut(detail, DETAIL_BYTES_MAX);
            draft.emit(Event::NoticeDropped { number, detail });
        }
        Some(Notice::CancelJob { .. } | Notice::AnswerCall { .. }) | None => {}
    }
}
