//! A log that could not be read to its end goes on.

use crate::event::Event;
use crate::limits::IN_DOUBT_KEPT_MAX;
use crate::receipt::{End, Progress};
use crate::session::{LostPart, Session};
use crate::texts;

pub(super) fn apply(session: &mut Session, event: &Event) {
    match event {
        Event::LogRepaired { after, calls, .. } => {
            session.lost.push_back(LostPart {
                after: *after,
                before: session.seq,
            });
            for lost in calls {
                session.in_doubt.insert(lost.call, lost.tool.clone());
            }
            while session.in_doubt.len() > IN_DOUBT_KEPT_MAX {
                session.in_doubt = session.in_doubt.without_min().1;
            }
            session.transcript.notes.push_back(texts::repaired(calls));
        }
        Event::MessageLost {
            message,
            turn,
            outcome,
        } => {
            let ended = Progress::Ended {
                turn: *turn,
                end: End::from(outcome),
                seq: session.seq,
            };
            session.receipts.progress(message, ended);
        }
        _ => {}
    }
}
