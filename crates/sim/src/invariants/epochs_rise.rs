//! Each take-over has a higher epoch, and each Record is of its owner's epoch.

use steadfast_core::event::Event;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct EpochsRise;

impl Invariant for EpochsRise {
    fn name(&self) -> &'static str {
        "epochs rise"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Event {
                before,
                event: Event::Activated { epoch, .. },
            } => {
                if *epoch <= before.epoch {
                    return Err(format!("epoch {epoch} follows epoch {}", before.epoch));
                }
                Ok(())
            }
            Seen::Record { before, record, .. } if record.epoch < before.epoch => Err(format!(
                "a record of epoch {} follows epoch {}",
                record.epoch, before.epoch
            )),
            _ => Ok(()),
        }
    }
}
