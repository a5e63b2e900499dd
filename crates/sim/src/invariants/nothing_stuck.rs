//! When faults stop, every accepted message ends and nothing is left running.

use std::collections::BTreeSet;

use steadfast_core::event::Event;
use steadfast_core::id::CommandId;
use steadfast_core::outstanding;
use steadfast_core::receipt::Progress;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct NothingStuck {
    accepted: BTreeSet<CommandId>,
    /// Receipts that clients hold for commands in the mailbox.
    receipted: BTreeSet<CommandId>,
    settled: BTreeSet<CommandId>,
}

impl Invariant for NothingStuck {
    fn name(&self) -> &'static str {
        "nothing is stuck"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Event {
                event: Event::TurnQueued { message, .. },
                ..
            } => {
                self.accepted.insert(message.clone());
                Ok(())
            }
            Seen::Event {
                event: Event::SessionDeleted,
                ..
            } => {
                self.accepted.clear();
                self.receipted.clear();
                Ok(())
            }
            Seen::Receipted { command } => {
                self.receipted.insert((*command).clone());
                Ok(())
            }
            Seen::Event {
                event: Event::CommandSettled { command, .. },
                ..
            } => {
                self.settled.insert(command.clone());
                Ok(())
            }
            Seen::Settled { log } => {
                let running = outstanding(log);
                if !running.is_empty() || log.turn.is_some() || !log.queue.is_empty() {
                    return Err(format!("still wanted: {running:?}, turn {:?}", log.turn));
                }
                if let Some(lost) = self.receipted.difference(&self.settled).next() {
                    return Err(format!("{lost} has a receipt and was never decided"));
                }
                let open = self.accepted.iter().find(|message| {
                    let progress = log
                        .receipts
                        .get(message)
                        .and_then(|receipt| receipt.progress);
                    !matches!(progress, Some(Progress::Ended { .. }))
                });
                open.map_or(Ok(()), |message| {
                    Err(format!("message {message} never ended"))
                })
            }
            _ => Ok(()),
        }
    }
}
