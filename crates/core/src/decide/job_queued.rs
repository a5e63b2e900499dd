//! A job stands in the tool queue: from here on it outlives its owner.

use super::Draft;
use crate::call::CallState;
use crate::event::Event;
use crate::id::CallId;
use crate::input::Place;

pub(super) fn decide(draft: &mut Draft, id: CallId, attempt: u32) {
    let Some(call) = draft.session.call(id) else {
        return;
    };
    let wanted = matches!(call.state, CallState::Started { attempt: a, .. } if a == attempt);
    if call.triage.place == Place::Remote && wanted {
        draft.emit(Event::JobQueued { call: id, attempt });
    }
}
