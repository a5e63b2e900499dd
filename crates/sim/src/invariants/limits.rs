//! Records and queues stay within their limits.

use steadfast_core::limits::{CALLS_PER_REPLY_MAX, RECORD_BYTES_MAX};

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct Limits;

impl Invariant for Limits {
    fn name(&self) -> &'static str {
        "limits hold"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Record { bytes, .. } if *bytes > RECORD_BYTES_MAX => {
                Err(format!("a record has {bytes} bytes"))
            }
            Seen::Event { before, .. } => {
                // An interrupt stands in the queue for the length of its own decision.
                let queue_max = before.policy.queue_max as usize + 1;
                if before.queue.len() > queue_max {
                    return Err(format!("{} messages wait", before.queue.len()));
                }
                let calls = before.turn.as_ref().map_or(0, |turn| turn.calls.len());
                if calls > CALLS_PER_REPLY_MAX {
                    return Err(format!("{calls} calls are open"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
