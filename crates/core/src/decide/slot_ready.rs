//! A pool slot for a waiting call is reserved.

use super::{Draft, calls};
use crate::id::CallId;

pub(super) fn decide(draft: &mut Draft, call: CallId) {
    calls::start_with_slot(draft, call);
}
