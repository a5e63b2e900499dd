//! Messages, and the turns that they become.

use std::sync::Arc;

use imbl::Vector;

use crate::command::{MessageOptions, WhenBusy};
use crate::content::{Content, Usage};
use crate::event::{Event, TurnOutcome};
use crate::id::{MessageId, TurnId};
use crate::receipt::{End, Progress};
use crate::session::{EndedTurn, Existence, QueuedMessage, Session, Turn, TurnPhase};
use crate::transcript::ItemBody;

pub(super) fn apply(session: &mut Session, event: &Event) {
    match event {
        Event::TurnQueued {
            message,
            content,
            options,
        } => {
            queue(session, message, content, options);
        }
        Event::MessageJoined { queued, into } => join(session, *queued, *into),
        Event::TurnStarted { turn } => start(session, *turn),
        Event::TurnEnded { turn, outcome } => end(session, *turn, outcome),
        Event::TurnCrashed {
            turn,
            in_row,
            in_turn,
            hold_until,
        } => {
            if let Some(open) = session.turn.as_mut().filter(|open| open.id == *turn) {
                open.crashes_in_row = *in_row;
                open.crashes_in_turn = *in_turn;
                open.hold_until = *hold_until;
            }
        }
        Event::HoldLifted { turn } => {
            if let Some(open) = session.turn.as_mut().filter(|open| open.id == *turn) {
                open.hold_until = None;
            }
        }
        Event::TranscriptRewound { to, note } => {
            session.transcript.rewind(*to);
            session.transcript.notes.extend(note.clone());
        }
        _ => {}
    }
}

/// Interrupts stand first, then steers, then the rest, each in the order they came.
fn rank(when_busy: WhenBusy) -> u8 {
    match when_busy {
        WhenBusy::Interrupt => 0,
        WhenBusy::Steer => 1,
        WhenBusy::Queue | WhenBusy::Reject => 2,
    }
}

fn queue(session: &mut Session, message: &MessageId, content: &Content, options: &MessageOptions) {
    let own = rank(options.when_busy);
    let behind = session
        .queue
        .iter()
        .rposition(|other| rank(other.options.when_busy) <= own);
    let position = behind.map_or(0, |position| position + 1);
    let queued = QueuedMessage {
        turn: TurnId(session.seq),
        message: message.clone(),
        content: Arc::new(content.clone()),
        options: Arc::new(options.clone()),
    };
    session.queue.insert(position, Arc::new(queued));
    if let Some(parent) = &options.parent
        && let Existence::Open(profile) = &mut session.existence
    {
        profile.parent.get_or_insert_with(|| parent.clone());
    }
}

fn take(session: &mut Session, turn: TurnId) -> Option<Arc<QueuedMessage>> {
    let position = session
        .queue
        .iter()
        .position(|queued| queued.turn == turn)?;
    Some(session.queue.remove(position))
}

fn show(session: &mut Session, queued: &QueuedMessage, turn: TurnId) {
    session.transcript.flush_notes(session.seq);
    let content = queued.content.clone();
    let body = ItemBody::User {
        turn,
        message: queued.message.clone(),
        content,
    };
    session.transcript.push(session.seq, body);
    session
        .receipts
        .progress(&queued.message, Progress::Running { turn });
    session.receipts.shown(&queued.message, session.seq);
}

fn join(session: &mut Session, queued: TurnId, into: TurnId) {
    let Some(queued) = take(session, queued) else {
        return;
    };
    show(session, &queued, into);
    if let Some(turn) = session.turn.as_mut() {
        turn.joined.push_back(queued.message.clone());
    }
}

fn start(session: &mut Session, turn: TurnId) {
    let Some(queued) = take(session, turn) else {
        return;
    };
    show(session, &queued, turn);
    session.turn = Some(Turn {
        id: turn,
        message: queued.message.clone(),
        options: Arc::clone(&queued.options),
        started_at: session.at,
        step: 0,
        phase: TurnPhase::Ready,
        calls: Vector::new(),
        calls_total: 0,
        usage: Usage::default(),
        crashes_in_row: 0,
        crashes_in_turn: 0,
        hold_until: None,
        compaction_tried: false,
        answers_refused: 0,
        joined: Vector::new(),
    });
}

fn end(session: &mut Session, turn: TurnId, outcome: &TurnOutcome) {
    let ended = Progress::Ended {
        turn,
        end: End::from(outcome),
        seq: session.seq,
    };
    if let Some(queued) = take(session, turn) {
        session.receipts.progress(&queued.message, ended);
        return;
    }
    if session.turn.as_ref().is_none_or(|open| open.id != turn) {
        return;
    }
    let Some(open) = session.turn.take() else {
        return;
    };
    session.receipts.progress(&open.message, ended);
    for message in &open.joined {
        session.receipts.progress(message, ended);
    }
    let at = session.at;
    session.last_turn = Some(EndedTurn {
        id: turn,
        message: open.message,
        outcome: outcome.clone(),
        at,
    });
}
