//! No tool starts before the fact that starts it is committed; a `safe` one, where it may run
//! ahead, not before it was sent to the log.

use std::collections::BTreeSet;

use steadfast_core::event::Event;
use steadfast_core::id::CallId;
use steadfast_core::input::Durability;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct EffectAfterEvent {
    started: BTreeSet<(CallId, u32)>,
}

impl Invariant for EffectAfterEvent {
    fn name(&self) -> &'static str {
        "no effect before its event"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Event {
                event: Event::CallStarted { call, attempt, .. },
                ..
            } => {
                self.started.insert((*call, *attempt));
                Ok(())
            }
            Seen::ToolStarted { job, log, begun } => {
                if self.started.contains(&(job.call, job.attempt)) {
                    return Ok(());
                }
                let sent = begun.iter().any(|event| {
                    matches!(event, Event::CallStarted { call, attempt, .. }
                        if (*call, *attempt) == (job.call, job.attempt))
                });
                let safe = job.tool.contains("safe");
                let ahead = log.policy.durability == Durability::On && safe;
                if sent && ahead {
                    return Ok(());
                }
                Err(format!(
                    "{} attempt {} of {} started",
                    job.call, job.attempt, job.tool
                ))
            }
            _ => Ok(()),
        }
    }
}
