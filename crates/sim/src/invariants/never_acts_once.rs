//! A `never` call acts at most once.

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct NeverActsOnce;

impl Invariant for NeverActsOnce {
    fn name(&self) -> &'static str {
        "a never call acts at most once"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::ToolActed {
                call,
                repeatable: false,
                times,
            } if *times > 1 => Err(format!("{call} acted {times} times")),
            _ => Ok(()),
        }
    }
}
