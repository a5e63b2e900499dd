//! What a state wants running.

use crate::call::{Call, CallState};
use crate::effect::Effect;
use crate::id::CallId;
use crate::input::{Durability, Place, ReplayRule};
use crate::replay::{compaction_effect, may_start, model_effect};
use crate::session::Session;

/// All work that this state wants done, in a fixed order.
pub fn outstanding(session: &Session) -> Vec<Effect> {
    let mut effects: Vec<Effect> = session
        .outbox
        .keys()
        .map(|&number| Effect::Notice { number })
        .collect();
    effects.extend(compaction_effect(session));
    let Some(turn) = &session.turn else {
        return effects;
    };
    if turn.hold_until.is_some() {
        return effects;
    }
    effects.extend(model_effect(session));
    effects.extend(
        turn.calls
            .iter()
            .filter_map(|call| call_effect(session, call)),
    );
    effects
}

fn call_effect(session: &Session, call: &Call) -> Option<Effect> {
    let id = call.id;
    match (&call.state, call.triage.place) {
        (CallState::AwaitingSlot, _) => {
            may_start(session, id).then_some(Effect::SlotReservation { call: id })
        }
        (CallState::Started { attempt, .. }, Place::Local) => Some(Effect::ToolCall {
            call: id,
            attempt: *attempt,
        }),
        (CallState::Started { attempt, .. }, Place::Remote) => Some(Effect::Job {
            call: id,
            attempt: *attempt,
        }),
        (CallState::Checking { attempt }, _) => Some(Effect::Check {
            call: id,
            attempt: *attempt,
        }),
        (CallState::Started { .. }, Place::Client)
        | (
            CallState::Proposed
            | CallState::AwaitingApproval { .. }
            | CallState::AwaitingClient
            | CallState::AwaitingInput
            | CallState::Queued { .. }
            | CallState::Backoff { .. }
            | CallState::InDoubt { .. }
            | CallState::Settled { .. },
            _,
        ) => None,
    }
}

/// Whether an effect may start while the Record that asks for it is still in flight.
///
/// A model call, a `safe` call and a reservation change nothing that must not be repeated.
pub fn may_run_ahead(session: &Session, effect: &Effect) -> bool {
    match effect {
        Effect::SlotReservation { .. } => true,
        Effect::ModelCall { .. } | Effect::Compaction { .. } => {
            session.policy.durability == Durability::On
        }
        Effect::ToolCall { call, .. } => {
            session.policy.durability == Durability::On && is_safe(session, *call)
        }
        Effect::Check { .. } | Effect::Job { .. } | Effect::Notice { .. } => false,
    }
}

fn is_safe(session: &Session, call: CallId) -> bool {
    session
        .call(call)
        .is_some_and(|call| call.triage.rule == ReplayRule::Safe)
}
