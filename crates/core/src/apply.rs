//! Folding one fact into the state. Total: every event can be applied to every state, and a fact
//! about something that is not there changes nothing but the numbering.

mod calls;
mod compaction;
mod lifecycle;
mod messages;
mod model;
mod repair;

use crate::event::Event;
use crate::id::Timestamp;
use crate::session::Session;

/// Folds one fact, which becomes the session's next event, decided at `at`.
pub fn apply(session: &mut Session, at: Timestamp, event: &Event) {
    session.seq = session.seq.next();
    session.at = session.at.max(at);
    match event {
        Event::Activated { .. }
        | Event::Released { .. }
        | Event::SessionCreated { .. }
        | Event::TranscriptForked { .. }
        | Event::DeletionStarted
        | Event::SessionDeleted
        | Event::CommandSettled { .. }
        | Event::NoticePosted { .. }
        | Event::NoticeDelivered { .. }
        | Event::NoticeDropped { .. } => lifecycle::apply(session, event),
        Event::LogRepaired { .. } | Event::MessageLost { .. } => repair::apply(session, event),
        Event::TurnQueued { .. }
        | Event::MessageJoined { .. }
        | Event::TurnStarted { .. }
        | Event::TurnEnded { .. }
        | Event::TurnCrashed { .. }
        | Event::HoldLifted { .. }
        | Event::TranscriptRewound { .. } => messages::apply(session, event),
        Event::StepStarted { .. }
        | Event::ModelCallFailed { .. }
        | Event::ModelCallRetried { .. }
        | Event::ToolsOffered { .. }
        | Event::ModelReplied { .. }
        | Event::AnswerRefused { .. } => model::apply(session, event),
        Event::ApprovalRequested { .. }
        | Event::ApprovalDecided { .. }
        | Event::CallStarted { .. }
        | Event::JobQueued { .. }
        | Event::CallRuleTightened { .. }
        | Event::CallRetryScheduled { .. }
        | Event::InputRequested { .. }
        | Event::InputGiven { .. }
        | Event::CheckRequested { .. }
        | Event::CallDoubted { .. }
        | Event::CallSettled { .. }
        | Event::CallResolved { .. } => calls::apply(session, event),
        Event::CompactionStarted { .. }
        | Event::CompactionFailed { .. }
        | Event::CompactionRetried { .. }
        | Event::TranscriptCompacted { .. } => compaction::apply(session, event),
    }
}
