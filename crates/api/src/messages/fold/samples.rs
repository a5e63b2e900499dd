//! How a conversation reads in tests.

use std::fmt::Write;
use std::ops::Range;

use steadfast_core::content::{ContentPart, ReplyPart, Stored};
use steadfast_core::event::Event;
use steadfast_core::id::{Epoch, Seq, Timestamp};

use super::{DraftBody, Fold};

pub(in crate::messages) fn folded(keep: Range<usize>, events: &[Event]) -> Fold {
    let mut fold = Fold::keeping(keep);
    for (seq, event) in (1..).zip(events) {
        fold.event(Seq(seq), Timestamp(seq), Epoch(1), event);
    }
    fold
}

pub(in crate::messages) fn shown(events: &[Event]) -> String {
    print(folded(0..usize::MAX, events))
}

pub(in crate::messages) fn print(fold: Fold) -> String {
    let mut out = String::new();
    for draft in fold.into_kept() {
        let turn = draft.turn.map_or("-".into(), |turn| turn.to_string());
        let (index, id) = (draft.index, &draft.id);
        let (role, state) = (draft.role, draft.state);
        writeln!(out, "{index} {id} {role:?} turn {turn} {state:?}").unwrap();
        for part in &draft.parts {
            match &part.body {
                DraftBody::Content(Stored::Inline(ContentPart::Text { text }))
                | DraftBody::Reply(Stored::Inline(ReplyPart::Text { text, .. })) => {
                    writeln!(out, "    {text}").unwrap();
                }
                DraftBody::Summary(Stored::Inline(text)) => {
                    writeln!(out, "    summary: {text}").unwrap();
                }
                DraftBody::Tool(tool) => {
                    let output = tool.output.as_ref().map(|output| &output.output);
                    let approved = tool.approval.as_ref().map(|approval| approval.approved);
                    writeln!(
                        out,
                        "    {} {} {:?} {:?} {output:?} approval {approved:?} late {:?}",
                        tool.tool, tool.id, tool.state, tool.settlement, tool.late_output
                    )
                    .unwrap();
                }
                other => writeln!(out, "    {other:?}").unwrap(),
            }
        }
    }
    out
}
