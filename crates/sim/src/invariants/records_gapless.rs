//! Records follow each other without gap, each chained to the one before.

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct RecordsGapless;

impl Invariant for RecordsGapless {
    fn name(&self) -> &'static str {
        "records are gapless"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Record {
            before,
            record,
            prev,
            ..
        } = seen
        else {
            return Ok(());
        };
        if record.first_seq != before.seq.next() {
            return Err(format!(
                "event {} follows event {}",
                record.first_seq, before.seq
            ));
        }
        if record.prev != *prev {
            return Err(format!(
                "record at {} is not chained to the one before",
                record.first_seq
            ));
        }
        Ok(())
    }
}
