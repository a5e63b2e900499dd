//! A call settles once, and is resolved at most once.

use steadfast_core::event::Event;
use steadfast_core::id::CallId;

use super::{Invariant, Once, Seen};

#[derive(Default)]
pub(super) struct CallsSettleOnce {
    settled: Once<CallId>,
    resolved: Once<CallId>,
}

impl Invariant for CallsSettleOnce {
    fn name(&self) -> &'static str {
        "a call settles once"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Event {
                event: Event::CallSettled { call, .. },
                ..
            } => self.settled.see(call, "settled"),
            Seen::Event {
                event: Event::CallResolved { call, .. },
                ..
            } => self.resolved.see(call, "was resolved"),
            _ => Ok(()),
        }
    }
}
