//! A call is in doubt only after its owner failed, its turn was ended, or its tool gave no outcome. Of
//! a remote call its deadline is cause enough: its worker may be gone, or its answer late.

use std::collections::BTreeSet;

use steadfast_core::event::{Event, Settlement};
use steadfast_core::id::CallId;
use steadfast_core::input::Place;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct DoubtHasACause {
    without_outcome: BTreeSet<CallId>,
    owner_failed: bool,
    settled: Vec<CallId>,
}

impl Invariant for DoubtHasACause {
    fn name(&self) -> &'static str {
        "doubt has a cause"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::OwnerFailed => self.owner_failed = true,
            Seen::ToolAnswered { call, output: None } => {
                self.without_outcome.insert(*call);
            }
            Seen::Event {
                before,
                event:
                    Event::CallSettled {
                        call, settlement, ..
                    },
                ..
            } => {
                let remote = before.call(*call);
                let remote = remote.is_some_and(|call| call.triage.place == Place::Remote);
                let excused = self.owner_failed || remote || self.without_outcome.contains(call);
                if *settlement == Settlement::InDoubt && !excused {
                    // Excused after all if the same decision ends the turn.
                    self.settled.push(*call);
                }
            }
            Seen::Event {
                event: Event::TurnEnded { .. },
                ..
            } => self.settled.clear(),
            Seen::Event {
                event: Event::StepStarted { .. },
                ..
            } => {
                if let Some(call) = self.settled.first() {
                    return Err(format!("{call} is in doubt without a cause"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
