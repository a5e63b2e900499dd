//! One turn at a time; each message is one turn; a turn ends once.

use steadfast_core::event::Event;
use steadfast_core::id::{CommandId, TurnId};

use super::{Invariant, Once, Seen};

#[derive(Default)]
pub(super) struct TurnsSerial {
    ended: Once<TurnId>,
    messages: Once<CommandId>,
}

impl Invariant for TurnsSerial {
    fn name(&self) -> &'static str {
        "turns are serial and end once"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Event { before, event } = seen else {
            return Ok(());
        };
        match event {
            Event::TurnStarted { turn } => match &before.turn {
                Some(open) => Err(format!("turn {turn} started beside {}", open.id)),
                None => Ok(()),
            },
            Event::TurnEnded { turn, .. } => self.ended.see(turn, "ended"),
            Event::TurnQueued { message, .. } => self.messages.see(message, "became a turn"),
            // A removed session knows nothing of its past.
            Event::SessionDeleted => {
                self.messages = Once::default();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
