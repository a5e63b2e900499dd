//! The tools that come from elsewhere are others than those that the model was last offered.

use super::Draft;
use crate::effect::Effect;
use crate::event::Event;
use crate::limits::DETAIL_BYTES_MAX;
use crate::offered::OfferedTools;
use crate::replay::model_effect;
use crate::texts;

pub(super) fn decide(draft: &mut Draft, effect: Effect, tools: &OfferedTools, note: Option<&str>) {
    if model_effect(&draft.session) != Some(effect) || *draft.session.offered == *tools {
        return;
    }
    let Some(turn) = &draft.session.turn else {
        return;
    };
    draft.emit(Event::ToolsOffered {
        turn: turn.id,
        offered: tools.clone(),
        note: note.map(|note| texts::cut(note, 4 * DETAIL_BYTES_MAX)),
    });
}
