//! Summaries that take the place of history.

use crate::event::Event;
use crate::session::{Compaction, Session};

pub(super) fn apply(session: &mut Session, event: &Event) {
    match event {
        Event::CompactionStarted { number, through } => {
            session.compactions = session.compactions.max(*number);
            session.compaction = Some(Compaction {
                number: *number,
                attempt: 1,
                through: *through,
                retry_at: None,
            });
        }
        Event::CompactionFailed {
            retry_at: Some(retry_at),
            ..
        } => {
            if let Some(compaction) = session.compaction.as_mut() {
                compaction.retry_at = Some(*retry_at);
            }
        }
        Event::CompactionFailed { retry_at: None, .. } => {
            session.compaction = None;
            if let Some(turn) = session.turn.as_mut() {
                turn.compaction_tried = true;
            }
        }
        Event::CompactionRetried { attempt, .. } => {
            if let Some(compaction) = session.compaction.as_mut() {
                compaction.attempt = *attempt;
                compaction.retry_at = None;
            }
        }
        Event::TranscriptCompacted {
            through,
            summary,
            usage,
            ..
        } => {
            session.compaction = None;
            session.usage.add(usage);
            if let Some(turn) = session.turn.as_mut() {
                turn.usage.add(usage);
            }
            session.transcript.compact(*through, summary.clone());
        }
        _ => {}
    }
}
