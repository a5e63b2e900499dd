//! What is running by the state, and the arithmetic of waiting.

use std::sync::Arc;

use serde::Serialize;

use crate::call::{Call, CallState};
use crate::effect::Effect;
use crate::id::{CallId, SessionKey};
use crate::session::{Session, TurnPhase};

/// Waits grow up to this, in milliseconds.
const BACKOFF_MS_MAX: u64 = 30_000;

/// The model call that runs, if one does.
pub(crate) fn model_effect(session: &Session) -> Option<Effect> {
    let turn = session.turn.as_ref()?;
    match turn.phase {
        TurnPhase::Calling { attempt } => Some(Effect::ModelCall {
            epoch: session.epoch,
            turn: turn.id,
            step: turn.step,
            attempt,
        }),
        TurnPhase::Ready
        | TurnPhase::Backoff { .. }
        | TurnPhase::Tools
        | TurnPhase::Answered { .. } => None,
    }
}

/// The compaction that runs, if one does.
pub(crate) fn compaction_effect(session: &Session) -> Option<Effect> {
    let compaction = session.compaction.as_ref()?;
    let (number, attempt) = (compaction.number, compaction.attempt);
    let runs = compaction.retry_at.is_none();
    runs.then_some(Effect::Compaction {
        epoch: session.epoch,
        number,
        attempt,
    })
}

/// Whether a call that waits for its slot may start: no exclusive call beside it.
pub(crate) fn may_start(session: &Session, id: CallId) -> bool {
    let waits = |call: &Call| matches!(call.state, CallState::AwaitingSlot);
    session.call(id).is_some_and(waits) && !is_blocked(session, id)
}

/// Whether a call that is under way must end before this one begins.
pub(crate) fn is_blocked(session: &Session, id: CallId) -> bool {
    let Some(turn) = &session.turn else {
        return false;
    };
    let Some(call) = turn.calls.iter().find(|call| call.id == id) else {
        return false;
    };
    let in_the_way = |other: &Arc<Call>| {
        other.id != id && is_under_way(other) && (call.triage.exclusive || other.triage.exclusive)
    };
    turn.calls.iter().any(in_the_way)
}

/// Running, or between two attempts.
fn is_under_way(call: &Call) -> bool {
    call.occupies() || matches!(call.state, CallState::Backoff { .. })
}

/// A wait of `base_ms`, doubled with each attempt, up to 30 s, with jitter.
pub(crate) fn backoff_ms(
    key: &SessionKey,
    seed: &impl Serialize,
    base_ms: u64,
    attempt: u32,
) -> u64 {
    let doublings = attempt.saturating_sub(1).min(16);
    let wait_ms = base_ms.saturating_mul(1 << doublings).min(BACKOFF_MS_MAX);
    jitter(key, seed, wait_ms)
}

/// A wait plus up to a quarter of it. The part is drawn from the session's name and the seed, so
/// that sessions cut off together do not come back together, and the decision stays pure.
pub(crate) fn jitter(key: &SessionKey, seed: &impl Serialize, wait_ms: u64) -> u64 {
    let bytes = serde_json::to_vec(&(key, seed)).unwrap_or_default();
    let first = blake3::hash(&bytes).as_bytes()[0];
    wait_ms.saturating_add(wait_ms.saturating_mul(u64::from(first)) / 1_024)
}
