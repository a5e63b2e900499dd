//! A summary is asked for by a person, or comes back from the model.

use super::{Answer, Asked, Draft};
use crate::content::{Stored, Usage};
use crate::effect::Effect;
use crate::event::{Event, Rejection, Verdict};
use crate::replay::compaction_effect;

pub(super) fn requested(draft: &mut Draft, asked: &Asked<'_>) -> Answer {
    let session = &draft.session;
    let boundary = session.transcript.compaction_boundary(0);
    let (None, Some(through)) = (&session.compaction, boundary) else {
        return asked.refuse(draft, Rejection::NothingToCompact);
    };
    let number = session.compactions + 1;
    draft.emit(Event::CompactionStarted { number, through });
    asked.settle(draft, Verdict::Done)
}

pub(super) fn done(draft: &mut Draft, effect: Effect, summary: &Stored<String>, usage: Usage) {
    let Some(compaction) = &draft.session.compaction else {
        return;
    };
    if compaction_effect(&draft.session) != Some(effect) {
        return;
    }
    let (number, through) = (compaction.number, compaction.through);
    draft.emit(Event::TranscriptCompacted {
        number,
        through,
        summary: summary.clone(),
        usage,
    });
}
