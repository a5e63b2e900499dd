//! A command with a receipt is never overtaken by one that was sent later.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::event::Event;
use steadfast_core::id::CommandId;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct MailNotOvertaken {
    waiting: BTreeSet<CommandId>,
    /// For each command, the mail that waited when it was first sent.
    before: BTreeMap<CommandId, BTreeSet<CommandId>>,
    settled: BTreeSet<CommandId>,
}

impl Invariant for MailNotOvertaken {
    fn name(&self) -> &'static str {
        "mail is not overtaken"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Sent { command } => {
                let waiting = self.waiting.clone();
                self.before.entry((*command).clone()).or_insert(waiting);
            }
            Seen::Receipted { command } if !self.settled.contains(*command) => {
                self.waiting.insert((*command).clone());
            }
            Seen::Event {
                event: Event::CommandSettled { command, .. },
                ..
            } => {
                self.settled.insert(command.clone());
                self.waiting.remove(command);
                let before = self.before.get(command);
                let late = before.and_then(|before| before.intersection(&self.waiting).next());
                if let Some(late) = late {
                    return Err(format!("{command} was decided before {late}"));
                }
            }
            // Mail to a removed session is dropped.
            Seen::Event {
                event: Event::DeletionStarted | Event::SessionDeleted,
                ..
            } => {
                self.waiting.clear();
            }
            _ => {}
        }
        Ok(())
    }
}
