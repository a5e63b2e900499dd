//! What is told as «did not run» did not run.

use std::collections::BTreeSet;

use steadfast_core::WITHDRAWN;
use steadfast_core::content::{Stored, ToolOutput};
use steadfast_core::event::{Event, Settlement};
use steadfast_core::id::CallId;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct DeniedNeverRan {
    acted: BTreeSet<CallId>,
    denied: BTreeSet<CallId>,
}

impl Invariant for DeniedNeverRan {
    fn name(&self) -> &'static str {
        "what was denied did not run"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::ToolActed { call, .. } => {
                self.acted.insert(*call);
                if self.denied.contains(call) {
                    return Err(format!(
                        "{call} acted after it was told that it did not run"
                    ));
                }
            }
            Seen::Event {
                event:
                    Event::CallSettled {
                        call, settlement, ..
                    },
                ..
            } if did_not_run(*settlement) => self.denied(*call)?,
            Seen::Event {
                event: Event::CallResolved { call, output },
                ..
            } if output.output == Stored::Inline(ToolOutput::error(WITHDRAWN)) => {
                self.denied(*call)?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl DeniedNeverRan {
    fn denied(&mut self, call: CallId) -> Result<(), String> {
        self.denied.insert(call);
        match self.acted.contains(&call) {
            true => Err(format!("{call} acted and is told as one that did not")),
            false => Ok(()),
        }
    }
}

fn did_not_run(settlement: Settlement) -> bool {
    match settlement {
        Settlement::Refused
        | Settlement::Denied
        | Settlement::Expired
        | Settlement::Superseded
        | Settlement::Unreachable
        | Settlement::ToolGone => true,
        Settlement::Done | Settlement::Cancelled | Settlement::Unknown | Settlement::InDoubt => {
            false
        }
    }
}
