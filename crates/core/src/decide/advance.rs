//! What a session does next by itself: what is due, then calls, steps, turns, removal.

use std::sync::Arc;

use super::{Draft, calls, due, end_turn, report};
use crate::call::{Call, CallState};
use crate::command::WhenBusy;
use crate::event::{Event, Settlement, TurnOutcome};
use crate::id::{CallId, TurnId};
use crate::session::{Existence, Session, Turn, TurnPhase};
use crate::texts;

/// Goes on as far as nothing outside is needed.
pub(super) fn advance(draft: &mut Draft) {
    due::settle_due(draft);
    // Each round ends a turn, starts one, or starts a step; the queue is bounded, so this ends.
    while step(draft) {}
    report::post(draft);
    if matches!(draft.session.existence, Existence::Deleting(_))
        && draft.session.turn.is_none()
        && draft.session.outbox.is_empty()
    {
        draft.emit(Event::SessionDeleted);
    }
}

/// One round; `false` when nothing more follows without the outside.
fn step(draft: &mut Draft) -> bool {
    let Some(turn) = &draft.session.turn else {
        return start_next_turn(draft);
    };
    if turn.hold_until.is_some() {
        return false;
    }
    match turn.phase {
        TurnPhase::Calling { .. } | TurnPhase::Backoff { .. } => false,
        TurnPhase::Tools => go_on_with_calls(draft),
        TurnPhase::Ready => start_step(draft),
        TurnPhase::Answered { finish } => {
            let id = turn.id;
            draft.emit(Event::TurnEnded {
                turn: id,
                outcome: TurnOutcome::Completed { finish },
            });
            true
        }
    }
}

fn start_next_turn(draft: &mut Draft) -> bool {
    reject_stranded_steers(draft);
    let Some(next) = draft.session.queue.front() else {
        return false;
    };
    let turn = next.turn;
    draft.emit(Event::TurnStarted { turn });
    true
}

/// A steer into one certain turn has no other place to go once that turn is over.
fn reject_stranded_steers(draft: &mut Draft) {
    let stranded: Vec<TurnId> = draft
        .session
        .queue
        .iter()
        .filter(|queued| {
            queued.options.when_busy == WhenBusy::Steer && queued.options.turn_id.is_some()
        })
        .map(|queued| queued.turn)
        .collect();
    for turn in stranded {
        draft.emit(Event::TurnEnded {
            turn,
            outcome: TurnOutcome::Rejected,
        });
    }
}

/// Starts what has its slot; lets a new message take the place of an answer that people owe.
fn go_on_with_calls(draft: &mut Draft) -> bool {
    for id in ready_calls(&draft.session) {
        calls::start_with_slot(draft, id);
    }
    let Some(turn) = &draft.session.turn else {
        return true;
    };
    let open: Vec<Arc<Call>> = turn
        .calls
        .iter()
        .filter(|call| !call.is_settled())
        .cloned()
        .collect();
    if open.is_empty() {
        // The last call's settlement has closed the step already.
        return !matches!(turn.phase, TurnPhase::Tools);
    }
    let people_owe_all = open.iter().all(|call| call.waits_for_people());
    if !people_owe_all || draft.session.queue.is_empty() {
        return false;
    }
    for call in &open {
        match call.state {
            // Its tool has begun, and is told that nobody answers, unless it asks for ever.
            CallState::AwaitingInput if asks_again(call) => draft.emit(Event::InputGiven {
                call: call.id,
                answer: texts::dismissed(),
            }),
            _ => calls::settle(draft, call.id, Settlement::Superseded, ""),
        }
    }
    true
}

/// Whether a call may still be told that nobody answers.
fn asks_again(call: &Call) -> bool {
    const QUESTIONS_MAX: u32 = 16;
    let asked = call.question.as_ref();
    asked.is_some_and(|asked| asked.attempt < QUESTIONS_MAX)
}

fn ready_calls(session: &Session) -> Vec<CallId> {
    let calls = session.turn.iter().flat_map(|turn| turn.calls.iter());
    let ready =
        |call: &&Arc<Call>| matches!(call.state, CallState::AwaitingSlot) && call.triage.slot;
    calls.filter(ready).map(|call| call.id).collect()
}

/// Asks the model again, unless a limit ends the turn or the history must be summarised first.
fn start_step(draft: &mut Draft) -> bool {
    let Some(turn) = &draft.session.turn else {
        return false;
    };
    if let Some(outcome) = limit_reached(&draft.session, turn) {
        end_turn::end(draft, outcome);
        return true;
    }
    if draft.session.compaction.is_some() {
        return false;
    }
    let (id, next) = (turn.id, turn.step + 1);
    join_steers(draft, id);
    if compact_first(draft) {
        return false;
    }
    draft.emit(Event::StepStarted {
        turn: id,
        step: next,
    });
    false
}

fn limit_reached(session: &Session, turn: &Turn) -> Option<TurnOutcome> {
    let policy = &session.policy;
    let failed = |code: &str, message: String| {
        Some(TurnOutcome::Failed {
            code: code.into(),
            message,
        })
    };
    let share = turn.options.share.as_deref();
    let steps_max = share.map_or(policy.steps_max, |share| {
        share.steps_max.min(policy.steps_max)
    });
    if turn.step >= steps_max {
        return failed(
            "max_steps",
            format!("the turn took {steps_max} model calls"),
        );
    }
    let over = |limit: Option<u64>, spent: u64| limit.filter(|&limit| spent >= limit);
    let shared = share.and_then(|share| share.tokens_max);
    let tokens_max = [policy.turn_tokens_max, shared].into_iter().flatten().min();
    if let Some(limit) = over(tokens_max, turn.usage.total_tokens()) {
        return failed("budget", format!("the turn spent its {limit} tokens"));
    }
    if let Some(limit) = over(policy.session_tokens_max, session.usage.total_tokens()) {
        return failed("budget", format!("the session spent its {limit} tokens"));
    }
    None
}

fn join_steers(draft: &mut Draft, turn: TurnId) {
    let joins: Vec<TurnId> = draft
        .session
        .queue
        .iter()
        .filter(|queued| queued.options.when_busy == WhenBusy::Steer)
        .filter(|queued| queued.options.turn_id.is_none_or(|wanted| wanted == turn))
        .map(|queued| queued.turn)
        .collect();
    for queued in joins {
        draft.emit(Event::MessageJoined { queued, into: turn });
    }
}

/// Starts a compaction when the history is over the threshold and something can be summarised.
fn compact_first(draft: &mut Draft) -> bool {
    let session = &draft.session;
    let Some(threshold) = session.policy.compact_at_tokens else {
        return false;
    };
    let tried = session
        .turn
        .as_ref()
        .is_some_and(|turn| turn.compaction_tried);
    if tried || session.transcript.tokens <= threshold {
        return false;
    }
    // A quarter of the threshold stays as it was said, so that the thread of the turn is not lost.
    let Some(through) = session.transcript.compaction_boundary(threshold / 4) else {
        return false;
    };
    let number = session.compactions + 1;
    draft.emit(Event::CompactionStarted { number, through });
    true
}
