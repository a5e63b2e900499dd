//! Items of a transcript that was copied from another session, as messages.

use steadfast_core::content::{ReplyPart, Stored};
use steadfast_core::id::{Seq, Timestamp};
use steadfast_core::input::Place;
use steadfast_core::transcript::{Item, ItemBody};

use super::fold::{DraftBody, DraftTool, Fold};
use super::view::{Role, State, ToolState};

/// Adds one item. Its own numbers are the other session's, so its turn is left out and its place
/// is that of the event that copied it.
pub(super) fn add(fold: &mut Fold, seq: Seq, at: Timestamp, item: &Item) {
    match &item.body {
        ItemBody::User {
            message, content, ..
        } => {
            fold.push(Role::User, None, seq, at, State::Completed);
            if let Some(draft) = fold.newest_draft() {
                draft.id = message.to_string();
            }
            for part in content.iter() {
                fold.add_part(seq, DraftBody::Content(part.clone()));
            }
        }
        ItemBody::Reply { parts, calls, .. } => {
            fold.assistant(seq, at, None, State::Completed);
            if let Some(draft) = fold.newest_draft()
                && draft.parts.is_empty()
            {
                // Many copied messages share one event.
                draft.id = format!("assistant-{seq}-{}", draft.index);
            }
            for part in parts {
                // Calls follow below, all of them.
                if !matches!(part, Stored::Inline(ReplyPart::Call { .. })) {
                    fold.add_part(seq, DraftBody::Reply(part.clone()));
                }
            }
            for call in calls {
                let tool = DraftTool {
                    id: call.id,
                    copied: true,
                    tool: call.tool.clone(),
                    input: (*call.input).clone(),
                    place: Place::Local,
                    state: ToolState::Pending,
                    settlement: None,
                    output: None,
                    late_output: None,
                    approval: None,
                };
                fold.add_part(seq, DraftBody::Tool(Box::new(tool)));
            }
        }
        ItemBody::Results { results, .. } => {
            for result in results {
                fold.settled(result.id, true, result.settlement, &result.output);
            }
        }
        ItemBody::Summary { summary } => {
            fold.push(Role::System, None, seq, at, State::Completed);
            fold.add_part(seq, DraftBody::Summary(summary.clone()));
        }
        // Notes are for the model; packed runs hold no packed runs.
        ItemBody::Note { .. } | ItemBody::Packed { .. } => {}
    }
}
