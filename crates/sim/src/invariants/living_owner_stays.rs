//! An owner that is alive and can be reached is never replaced, so owners never duel.

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct LivingOwnerStays;

impl Invariant for LivingOwnerStays {
    fn name(&self) -> &'static str {
        "a living owner is left alone"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::LivingOwnerReplaced => Err("an owner that is alive was replaced".into()),
            _ => Ok(()),
        }
    }
}
