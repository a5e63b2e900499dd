//! A node takes the session over: what was cut off is repeated, asked about, or in doubt.

use std::sync::Arc;

use super::calls;
use super::{Draft, end_turn};
use crate::call::{Call, CallState};
use crate::event::{Event, Settlement, TurnOutcome};
use crate::id::{CallId, Timestamp, TurnId};
use crate::input::{Activate, Place, ReplayRule, RuleToday};
use crate::limits::{CRASH_HOLD_MS, CRASHES_IN_ROW_MAX, CRASHES_IN_TURN_MAX};
use crate::replay::jitter;
use crate::session::Session;
use crate::texts;

pub(super) fn decide(draft: &mut Draft, activate: &Activate) {
    let crashed = !draft.session.is_unowned() && runs_locally(&draft.session);
    let held = is_held(&draft.session);
    draft.emit(Event::Activated {
        node: activate.node.clone(),
        epoch: draft.session.epoch.next().max(activate.epoch_min),
        policy: activate.policy.clone(),
    });
    if crashed && !survives(draft) {
        return;
    }
    for call in open_calls(&draft.session) {
        let today = activate.open_calls.iter().find(|(id, _)| *id == call.id);
        recover(draft, &call, today.map(|(_, today)| *today), held);
    }
}

fn is_held(session: &Session) -> bool {
    session
        .turn
        .as_ref()
        .is_some_and(|turn| turn.hold_until.is_some())
}

/// Work that died with its owner. A model call never counts: it cannot take a node down.
fn runs_locally(session: &Session) -> bool {
    let local = |call: &Arc<Call>| {
        call.triage.place == Place::Local
            && matches!(
                call.state,
                CallState::Started { .. } | CallState::Checking { .. }
            )
    };
    // A held turn runs nothing, so whatever took the node down, it was not this turn.
    let turn = session.turn.as_ref().filter(|_| !is_held(session));
    turn.is_some_and(|turn| turn.calls.iter().any(local))
}

fn open_calls(session: &Session) -> Vec<Arc<Call>> {
    let calls = session.turn.iter().flat_map(|turn| turn.calls.iter());
    calls.filter(|call| !call.is_settled()).cloned().collect()
}

/// Counts the crash before anything runs again; ends a turn that keeps killing its owner.
fn survives(draft: &mut Draft) -> bool {
    let Some(turn) = &draft.session.turn else {
        return true;
    };
    let (id, in_row, in_turn) = (turn.id, turn.crashes_in_row + 1, turn.crashes_in_turn + 1);
    let hold_until = hold(&draft.session, id, in_row, draft.now);
    draft.emit(Event::TurnCrashed {
        turn: id,
        in_row,
        in_turn,
        hold_until,
    });
    if in_row <= CRASHES_IN_ROW_MAX && in_turn <= CRASHES_IN_TURN_MAX {
        return true;
    }
    let message = format!(
        "the turn's tool calls took its node down {in_row} times in a row, {in_turn} times in all"
    );
    let outcome = TurnOutcome::Failed {
        code: "recovery_exhausted".into(),
        message,
    };
    end_turn::end(draft, outcome);
    false
}

fn hold(session: &Session, turn: TurnId, in_row: u32, now: Timestamp) -> Option<Timestamp> {
    let wait_ms = match in_row {
        0 | 1 => return None,
        2 => CRASH_HOLD_MS[0],
        _ => CRASH_HOLD_MS[1],
    };
    Some(now.plus_ms(jitter(&session.key, &(turn, in_row), wait_ms)))
}

fn recover(draft: &mut Draft, call: &Call, today: Option<RuleToday>, held: bool) {
    let Some(today) = today else {
        return without_tool(draft, call);
    };
    if today.rule > call.triage.rule {
        draft.emit(Event::CallRuleTightened {
            call: call.id,
            rule: today.rule,
        });
    }
    let rule = call.triage.rule.max(today.rule);
    match (&call.state, call.triage.place, rule) {
        // The attempt that a hold keeps back has not run yet.
        (
            CallState::Started { attempt, .. },
            Place::Local,
            ReplayRule::Safe | ReplayRule::Keyed,
        ) if !held => restart(draft, call.id, attempt + 1, call.triage.deadline_ms),
        (CallState::Started { attempt, .. }, Place::Local, ReplayRule::Never) => {
            let has_check = call.triage.has_check && today.has_check;
            calls::ask_or_doubt(draft, call.id, *attempt, has_check);
        }
        // Repeated once already by a lenient rule, and now it must not be.
        (CallState::Backoff { .. }, Place::Local, ReplayRule::Never) => {
            calls::doubt(draft, call.id);
        }
        _ => {}
    }
}

fn restart(draft: &mut Draft, call: CallId, attempt: u32, deadline_ms: u64) {
    let deadline = draft.now.plus_ms(deadline_ms);
    draft.emit(Event::CallStarted {
        call,
        attempt,
        deadline,
    });
}

fn without_tool(draft: &mut Draft, call: &Call) {
    // A remote job or a client answers whatever is configured here.
    if call.triage.place == Place::Remote && call.has_started() {
        return;
    }
    if matches!(call.state, CallState::InDoubt { .. }) {
        return;
    }
    if call.has_started() {
        calls::doubt(draft, call.id);
        return;
    }
    let settlement = Settlement::ToolGone;
    let output = texts::without_outcome(settlement, call.triage.rule, "");
    draft.emit(Event::CallSettled {
        call: call.id,
        settlement,
        output,
    });
}
