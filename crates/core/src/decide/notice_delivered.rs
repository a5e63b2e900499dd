//! A notice of the outbox reached the outside.

use super::Draft;
use crate::event::Event;

pub(super) fn decide(draft: &mut Draft, number: u64) {
    if draft.session.outbox.contains_key(&number) {
        draft.emit(Event::NoticeDelivered { number });
    }
}
