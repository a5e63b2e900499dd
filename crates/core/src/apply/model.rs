//! Model calls and their replies.

use std::sync::Arc;

use crate::call::{Call, CallState};
use crate::content::Finish;
use crate::event::{Event, RecordedCall};
use crate::id::CallId;
use crate::input::{Gate, Place};
use crate::session::{Session, TurnPhase};
use crate::texts;
use crate::transcript::{ItemBody, TranscriptCall};

pub(super) fn apply(session: &mut Session, event: &Event) {
    match event {
        Event::StepStarted { step, .. } => {
            session.transcript.flush_notes(session.seq);
            if let Some(turn) = session.turn.as_mut() {
                turn.step = *step;
                turn.phase = TurnPhase::Calling { attempt: 1 };
            }
        }
        Event::ModelCallFailed {
            attempt, retry_at, ..
        } => {
            if let Some(turn) = session.turn.as_mut() {
                turn.phase = TurnPhase::Backoff {
                    attempt: *attempt,
                    retry_at: *retry_at,
                };
            }
        }
        Event::ModelCallRetried { attempt, .. } => {
            if let Some(turn) = session.turn.as_mut() {
                turn.phase = TurnPhase::Calling { attempt: *attempt };
            }
        }
        Event::ToolsOffered { offered, note, .. } => {
            session.offered = Arc::new(offered.clone());
            session.transcript.notes.extend(note.clone());
            // It is for the model call that begins now.
            session.transcript.flush_notes(session.seq);
        }
        Event::ModelReplied { .. } => replied(session, event),
        Event::AnswerRefused { detail, .. } => {
            let text = texts::answer_refused(detail);
            session
                .transcript
                .push(session.seq, ItemBody::Note { text });
            if let Some(turn) = session.turn.as_mut() {
                turn.answers_refused = turn.answers_refused.saturating_add(1);
                turn.phase = TurnPhase::Ready;
            }
        }
        _ => {}
    }
}

fn replied(session: &mut Session, event: &Event) {
    let Event::ModelReplied {
        turn,
        step,
        wire,
        model,
        parts,
        calls,
        finish,
        usage,
    } = event
    else {
        return;
    };
    session.usage.add(usage);
    let at = session.at;
    let calls: Vec<Call> = (0_u16..)
        .zip(calls)
        .map(|(index, recorded)| {
            let id = CallId {
                epoch: session.epoch,
                reply: session.seq,
                index,
            };
            open_call(id, recorded, at)
        })
        .collect();
    let asked = calls.iter().map(|call| TranscriptCall {
        id: call.id,
        provider_call_id: call.provider_call_id.clone(),
        tool: call.tool.clone(),
        input: call.input.clone(),
    });
    let body = ItemBody::Reply {
        turn: *turn,
        step: *step,
        wire: wire.clone(),
        model: model.clone(),
        parts: parts.clone(),
        calls: asked.collect(),
    };
    session.transcript.push(session.seq, body);
    if let Some(open) = session.turn.as_mut() {
        open.usage.add(usage);
        open.calls_total = open.calls_total.saturating_add(calls.len() as u64);
        open.phase = match (calls.is_empty(), finish) {
            (false, _) => TurnPhase::Tools,
            (true, Finish::Paused) => TurnPhase::Ready,
            (true, finish) => TurnPhase::Answered { finish: *finish },
        };
        open.calls = calls.into_iter().map(Arc::new).collect();
    }
}

fn open_call(id: CallId, recorded: &RecordedCall, at: crate::id::Timestamp) -> Call {
    let state = match (&recorded.triage.gate, recorded.triage.place) {
        (Gate::Open, Place::Client) => CallState::AwaitingClient,
        (Gate::Open, Place::Local | Place::Remote) => CallState::AwaitingSlot,
        (Gate::Approval { .. } | Gate::Refused { .. }, _) => CallState::Proposed,
    };
    Call {
        id,
        provider_call_id: recorded.provider_call_id.clone(),
        tool: recorded.tool.clone(),
        input: Arc::new(recorded.input.clone()),
        triage: recorded.triage.clone(),
        approval_reason: None,
        may_have_acted: false,
        question: None,
        since: at,
        state,
    }
}
