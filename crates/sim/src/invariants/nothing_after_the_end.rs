//! A call that is settled is not started again. Only an owner that lost its session without letting
//! go of it, because it stood still or was cut off, may begin a call late: nobody can tell it. So may
//! a worker elsewhere: the queue delivers a job at least once, and what ends its call reaches it as a
//! message. Of a `never` call it had the claim by then, which its settlement owns up to.

use std::collections::BTreeSet;

use steadfast_core::event::Event;
use steadfast_core::id::{CallId, Epoch};

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct NothingAfterTheEnd {
    settled: BTreeSet<CallId>,
    /// Ownerships that ended in order.
    released: BTreeSet<Epoch>,
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
            Seen::Event {
                before,
                event: Event::Released { .. },
            } => {
                self.released.insert(before.epoch);
                Ok(())
            }
            Seen::ToolStarted { job, log, .. } if self.settled.contains(&job.call) => {
                let is_remote = job.tool.contains("remote");
                let was_lost = job.epoch < log.epoch && !self.released.contains(&job.epoch);
                if was_lost || is_remote {
                    return Ok(());
                }
                Err(format!("{} started after it was settled", job.call))
            }
            _ => Ok(()),
        }
    }
}
