//! Deadlines that have passed. Every decision looks at them, so a late timer changes nothing.

use super::{Draft, calls, end_turn};
use std::sync::Arc;

use crate::call::{Call, CallState};
use crate::event::{Event, Settlement, TurnOutcome};
use crate::input::{Place, ReplayRule};
use crate::session::TurnPhase;

pub(super) fn settle_due(draft: &mut Draft) {
    turn_wall_time(draft);
    crash_hold(draft);
    approvals(draft);
    compaction(draft);
    let held = draft
        .session
        .turn
        .as_ref()
        .is_some_and(|turn| turn.hold_until.is_some());
    if held {
        return;
    }
    call_deadlines(draft);
    model_backoff(draft);
}

fn turn_wall_time(draft: &mut Draft) {
    let Some(turn) = &draft.session.turn else {
        return;
    };
    let Some(limit_ms) = draft.session.policy.turn_wall_ms_max else {
        return;
    };
    if turn.started_at.plus_ms(limit_ms) <= draft.now {
        let message = format!("the turn took longer than {limit_ms} ms");
        end_turn::end(
            draft,
            TurnOutcome::Failed {
                code: "budget".into(),
                message,
            },
        );
    }
}

fn crash_hold(draft: &mut Draft) {
    let Some(turn) = &draft.session.turn else {
        return;
    };
    if turn.hold_until.is_some_and(|until| until <= draft.now) {
        let turn = turn.id;
        draft.emit(Event::HoldLifted { turn });
    }
}

fn open_calls(draft: &Draft) -> Vec<Arc<Call>> {
    draft
        .session
        .turn
        .iter()
        .flat_map(|turn| turn.calls.iter())
        .cloned()
        .collect()
}

fn approvals(draft: &mut Draft) {
    let now = draft.now;
    for call in open_calls(draft) {
        if let CallState::AwaitingApproval {
            expires_at: Some(at),
            ..
        } = call.state
            && at <= now
        {
            calls::settle(draft, call.id, Settlement::Expired, "");
        }
    }
}

fn compaction(draft: &mut Draft) {
    let Some(compaction) = &draft.session.compaction else {
        return;
    };
    if compaction.retry_at.is_some_and(|at| at <= draft.now) {
        let (number, attempt) = (compaction.number, compaction.attempt + 1);
        draft.emit(Event::CompactionRetried { number, attempt });
    }
}

fn call_deadlines(draft: &mut Draft) {
    for call in open_calls(draft) {
        match call.state {
            CallState::Backoff {
                attempt,
                retry_at,
                deadline,
            } if retry_at <= draft.now => {
                let attempt = attempt + 1;
                draft.emit(Event::CallStarted {
                    call: call.id,
                    attempt,
                    deadline,
                });
            }
            CallState::Started { attempt, deadline } | CallState::Queued { attempt, deadline }
                if call.triage.place == Place::Remote && deadline <= draft.now =>
            {
                remote_deadline(draft, &call, attempt);
            }
            _ => {}
        }
    }
}

/// A remote job gave no answer in time: it is cancelled, surely, and its outcome is not known.
fn remote_deadline(draft: &mut Draft, call: &Call, attempt: u32) {
    calls::cancel_job(draft, call, attempt);
    match call.triage.rule {
        // Also without a check of its own: whoever withdraws its claim first knows that it never ran.
        ReplayRule::Never => draft.emit(Event::CheckRequested {
            call: call.id,
            attempt,
        }),
        ReplayRule::Safe | ReplayRule::Keyed => {
            calls::settle(draft, call.id, Settlement::Unknown, "deadline passed");
        }
    }
}

fn model_backoff(draft: &mut Draft) {
    let Some(turn) = &draft.session.turn else {
        return;
    };
    let TurnPhase::Backoff { attempt, retry_at } = turn.phase else {
        return;
    };
    if retry_at <= draft.now && draft.session.compaction.is_none() {
        let (turn, step, attempt) = (turn.id, turn.step, attempt + 1);
        draft.emit(Event::ModelCallRetried {
            turn,
            step,
            attempt,
        });
    }
}
