//! What a client was told is what the log says, and a repeated command is told the same.

use std::collections::BTreeMap;

use steadfast_core::event::{Event, Verdict};
use steadfast_core::id::CommandId;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct AnswersAgree {
    logged: BTreeMap<CommandId, Verdict>,
}

impl Invariant for AnswersAgree {
    fn name(&self) -> &'static str {
        "answers agree with the log"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Event {
                event:
                    Event::CommandSettled {
                        command, verdict, ..
                    },
                ..
            } => {
                self.logged.insert((*command).clone(), *verdict);
                Ok(())
            }
            Seen::Event {
                event: Event::SessionDeleted,
                ..
            } => {
                self.logged.clear();
                Ok(())
            }
            // A refusal without receipt is not in the log, and its id may be used again.
            Seen::Answered {
                command,
                verdict: verdict @ Verdict::Accepted { .. },
            } => match self.logged.get(*command) {
                Some(logged) if logged == verdict => Ok(()),
                logged => Err(format!(
                    "{command} was told {verdict:?}, the log says {logged:?}"
                )),
            },
            _ => Ok(()),
        }
    }
}
