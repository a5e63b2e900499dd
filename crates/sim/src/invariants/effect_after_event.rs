//! No tool starts before the fact that starts it is committed; a `safe` one, where it may run
//! ahead, not before it was sent to the log.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::event::Event;
use steadfast_core::id::{CallId, Epoch};
use steadfast_core::input::Durability;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct EffectAfterEvent {
    started: BTreeSet<(CallId, u32)>,
    /// What each owner may do: one that was replaced and does not know it goes by its own.
    durability: BTreeMap<Epoch, Durability>,
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
            Seen::Event {
                event: Event::Activated { epoch, policy, .. },
                ..
            } => {
                self.durability.insert(*epoch, policy.durability);
                Ok(())
            }
            Seen::ToolStarted { job, begun, .. } => {
                if self.started.contains(&(job.call, job.attempt)) {
                    return Ok(());
                }
                let sent = begun.iter().any(|event| {
                    matches!(event, Event::CallStarted { call, attempt, .. }
                        if (*call, *attempt) == (job.call, job.attempt))
                });
                let safe = job.tool.contains("safe");
                let ahead = self.durability.get(&job.epoch) == Some(&Durability::On) && safe;
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
