//! A notice of the outbox reached the outside.

use super::Draft;
use crate::event::{Event, Notice};
use crate::texts;

pub(super) fn decide(draft: &mut Draft, number: u64, withdrawn: bool) {
    let Some(notice) = draft.session.outbox.get(&number) else {
        return;
    };
    let Notice::CancelJob {
        call, under_claim, ..
    } = *notice;
    draft.emit(Event::NoticeDelivered { number });
    // Its turn ended without waiting for this: until now it was in doubt.
    if withdrawn && under_claim && draft.session.in_doubt.contains_key(&call) {
        let output = texts::withdrawn();
        draft.emit(Event::CallResolved { call, output });
    }
}
