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
                fold.settled(seq, result.id, true, result.settlement, &result.output);
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

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use steadfast_core::command::{ForkOrigin, PackedItems};
    use steadfast_core::content::{BlobHash, BlobRef, CallInput, ContentPart, Stored, ToolOutput};
    use steadfast_core::event::{Event, Settlement};
    use steadfast_core::id::{CommandId, Epoch, SessionId, SessionKey, TenantId};
    use steadfast_core::input::Gate;
    use steadfast_core::transcript::{CallResult, TranscriptCall};

    use super::super::fold::samples::print;
    use super::*;
    use crate::event_samples::{call, queued, recorded, reply, settled, started, turn};

    /// A question, a call of the other session and its result.
    fn copied_items() -> [Item; 3] {
        let item = |seq, body| Item {
            seq: Seq(seq),
            tokens: 0,
            body,
        };
        [
            item(
                2,
                ItemBody::User {
                    turn: turn(1),
                    message: CommandId::new("old").unwrap(),
                    content: vec![Stored::Inline(ContentPart::Text { text: "hi".into() })].into(),
                },
            ),
            item(
                3,
                ItemBody::Reply {
                    turn: turn(1),
                    step: 1,
                    wire: "w".into(),
                    model: "m".into(),
                    parts: vec![],
                    calls: vec![TranscriptCall {
                        id: call(4, 0),
                        provider_call_id: "p".into(),
                        tool: "get".into(),
                        input: Stored::Inline(CallInput::Json(Value::Null)).into(),
                    }],
                },
            ),
            item(
                5,
                ItemBody::Results {
                    turn: turn(1),
                    results: vec![CallResult {
                        id: call(4, 0),
                        provider_call_id: "p".into(),
                        tool: "get".into(),
                        settlement: Settlement::Done,
                        output: ToolOutput::text("old result").into(),
                    }],
                },
            ),
        ]
    }

    fn forked() -> Event {
        Event::TranscriptForked {
            origin: ForkOrigin {
                from: SessionKey {
                    tenant: TenantId::new("t").unwrap(),
                    session: SessionId::new("s").unwrap(),
                },
                at_seq: Seq(6),
                transcript: vec![PackedItems {
                    blob: BlobRef {
                        hash: BlobHash::of(b""),
                        size_bytes: 0,
                    },
                    items: 3,
                    first_seq: Seq(2),
                    last_seq: Seq(5),
                    tokens: 0,
                }],
            },
        }
    }

    #[test]
    fn a_copied_transcript_keeps_its_calls_apart_from_new_ones() {
        let mut fold = Fold::keeping(0..2);
        for item in &copied_items() {
            fold.copied(Seq(1), Timestamp(1), item);
        }
        let events = [
            forked(),
            queued("m1", "again"),
            started(2),
            reply(2, vec![], vec![recorded("get", Gate::Open, Place::Local)]),
            settled(call(4, 0), "new result, of a call that is not on this page"),
        ];
        for (seq, event) in (1..).zip(&events) {
            fold.event(Seq(seq), Timestamp(seq), Epoch(1), event);
        }
        insta::assert_snapshot!(print(fold), @r#"
        0 old User turn - Completed
            hi
        1 assistant-1-1 Assistant turn - Completed
            get 1-4-0 Settled Some(Done) Some(Inline(Text { text: "old result" })) approval None late None
        "#);
    }
}
