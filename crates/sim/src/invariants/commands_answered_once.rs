//! A command is answered once in the log.

use steadfast_core::event::Event;
use steadfast_core::id::CommandId;

use super::{Invariant, Once, Seen};

#[derive(Default)]
pub(super) struct CommandsAnsweredOnce {
    answered: Once<CommandId>,
}

impl Invariant for CommandsAnsweredOnce {
    fn name(&self) -> &'static str {
        "a command is answered once"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Event {
                event: Event::CommandSettled { command, .. },
                ..
            } => self.answered.see(command, "was answered"),
            Seen::Event {
                event: Event::SessionDeleted,
                ..
            } => {
                self.answered = Once::default();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
