//! When to look at a session again.

use crate::call::CallState;
use crate::effect::Wake;
use crate::id::Timestamp;
use crate::input::Place;
use crate::outstanding::outstanding;
use crate::session::{Session, Turn, TurnPhase};

/// Now if something outstanding needs an owner, else the next deadline.
pub fn wake(session: &Session) -> Wake {
    if !outstanding(session).is_empty() {
        return Wake::Now;
    }
    next_deadline(session).map_or(Wake::Never, Wake::At)
}

/// The next instant at which time alone changes the session. After a decision at that instant the
/// next deadline is a later one.
pub fn next_deadline(session: &Session) -> Option<Timestamp> {
    let compaction = session
        .compaction
        .as_ref()
        .and_then(|compaction| compaction.retry_at);
    let turn = session
        .turn
        .iter()
        .flat_map(|turn| turn_deadlines(session, turn));
    compaction.into_iter().chain(turn).min()
}

fn turn_deadlines(session: &Session, turn: &Turn) -> Vec<Timestamp> {
    let wall = session
        .policy
        .turn_wall_ms_max
        .map(|ms| turn.started_at.plus_ms(ms));
    let mut deadlines: Vec<Timestamp> = wall.into_iter().chain(turn.hold_until).collect();
    let held = turn.hold_until.is_some();
    deadlines.extend(turn.calls.iter().filter_map(|call| match call.state {
        CallState::AwaitingApproval { expires_at, .. } => expires_at,
        CallState::Backoff { retry_at, .. } if !held => Some(retry_at),
        CallState::Queued { deadline, .. } if !held => Some(deadline),
        CallState::Started { deadline, .. } if !held && call.triage.place == Place::Remote => {
            Some(deadline)
        }
        CallState::Backoff { .. }
        | CallState::Queued { .. }
        | CallState::Proposed
        | CallState::AwaitingSlot
        | CallState::AwaitingClient
        | CallState::AwaitingInput
        | CallState::Started { .. }
        | CallState::Checking { .. }
        | CallState::InDoubt { .. }
        | CallState::Settled { .. } => None,
    }));
    if let TurnPhase::Backoff { retry_at, .. } = turn.phase
        && !held
        && session.compaction.is_none()
    {
        deadlines.push(retry_at);
    }
    deadlines
}
