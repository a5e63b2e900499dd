//! Ending a turn before the model answered: every open call gets a result first, so that the
//! transcript stays valid.

use std::sync::Arc;

use super::{Draft, calls};
use crate::call::{Call, CallState};
use crate::event::{Event, Settlement, TurnOutcome};
use crate::input::{Place, ReplayRule};
use crate::texts;

/// Settles what is open and ends the running turn.
pub(super) fn end(draft: &mut Draft, outcome: TurnOutcome) {
    let Some(turn) = &draft.session.turn else {
        return;
    };
    let id = turn.id;
    let open: Vec<Arc<Call>> = turn
        .calls
        .iter()
        .filter(|call| !call.is_settled())
        .cloned()
        .collect();
    for call in &open {
        settle_open(draft, call);
    }
    if let Some(compaction) = &draft.session.compaction {
        draft.emit(Event::CompactionFailed {
            number: compaction.number,
            attempt: compaction.attempt,
            code: "turn_ended".into(),
            message: "the turn ended".into(),
            retry_at: None,
        });
    }
    draft.emit(Event::TurnEnded { turn: id, outcome });
}

fn settle_open(draft: &mut Draft, call: &Call) {
    if call.triage.place == Place::Remote
        && let CallState::Started { attempt, .. } | CallState::Queued { attempt, .. } = call.state
    {
        calls::cancel_job(draft, call, attempt);
    }
    let (settlement, output) = match (call.has_started(), call.triage.rule) {
        (false, _) => (Settlement::Cancelled, texts::never_ran()),
        (true, ReplayRule::Never) => {
            let settlement = Settlement::InDoubt;
            (
                settlement,
                texts::without_outcome(settlement, call.triage.rule, "cancelled"),
            )
        }
        (true, rule @ (ReplayRule::Safe | ReplayRule::Keyed)) => {
            let settlement = Settlement::Cancelled;
            (settlement, texts::without_outcome(settlement, rule, ""))
        }
    };
    draft.emit(Event::CallSettled {
        call: call.id,
        settlement,
        output,
    });
}
