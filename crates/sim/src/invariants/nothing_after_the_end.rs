//! A call that is settled is not started again.

use std::collections::BTreeSet;

use steadfast_core::event::Event;
use steadfast_core::id::CallId;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct NothingAfterTheEnd {
    settled: BTreeSet<CallId>,
}

impl Invariant for NothingAfterTheEnd {
    fn name(&self) -> &'static str {
        "no effect after its end"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Event {
                event: Event::CallSettled { call, .. },
                ..
            } => {
                self.settled.insert(*call);
                Ok(())
            }
            Seen::ToolStarted { job, .. } if self.settled.contains(&job.call) => {
                Err(format!("{} started after it was settled", job.call))
            }
            _ => Ok(()),
        }
    }
}
