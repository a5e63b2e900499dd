//! The owner lets go, and says when to look again.

use super::Draft;
use crate::event::Event;
use crate::wake::wake;

pub(super) fn decide(draft: &mut Draft) {
    let wake = wake(&draft.session);
    draft.emit(Event::Released { wake });
}
