//! Events of a conversation for tests, and how it then reads.

use std::fmt::Write;
use std::ops::Range;

use serde_json::json;
use steadfast_core::command::MessageOptions;
use steadfast_core::content::{
    CallInput, ContentPart, Finish, ReplyPart, Stored, ToolOutput, Usage,
};
use steadfast_core::event::{Event, RecordedCall, Settlement, TurnOutcome};
use steadfast_core::id::{CallId, CommandId, Epoch, Seq, Timestamp, TurnId};
use steadfast_core::input::{CallTriage, Gate, InDoubtPolicy, Place, ReplayRule};

use super::{DraftBody, Fold};

pub(in crate::messages) fn queued(id: &str, text: &str) -> Event {
    Event::TurnQueued {
        message: CommandId::new(id).unwrap(),
        content: vec![Stored::Inline(ContentPart::Text { text: text.into() })],
        options: MessageOptions::default(),
    }
}

pub(in crate::messages) fn turn(seq: u64) -> TurnId {
    TurnId(Seq(seq))
}

pub(in crate::messages) fn started(seq: u64) -> Event {
    Event::TurnStarted { turn: turn(seq) }
}

pub(in crate::messages) fn ended(seq: u64) -> Event {
    Event::TurnEnded {
        turn: turn(seq),
        outcome: TurnOutcome::Completed {
            finish: Finish::Stop,
        },
    }
}

pub(in crate::messages) fn text_part(text: &str) -> Stored<ReplyPart> {
    Stored::Inline(ReplyPart::Text {
        text: text.into(),
        native: None,
    })
}

pub(in crate::messages) fn reply(
    of: u64,
    parts: Vec<Stored<ReplyPart>>,
    calls: Vec<RecordedCall>,
) -> Event {
    Event::ModelReplied {
        turn: turn(of),
        step: 1,
        wire: "w".into(),
        model: "m".into(),
        parts,
        calls,
        finish: Finish::Stop,
        usage: Usage::default(),
    }
}

pub(in crate::messages) fn recorded(tool: &str, gate: Gate, place: Place) -> RecordedCall {
    RecordedCall {
        provider_call_id: "p".into(),
        tool: tool.into(),
        input: Stored::Inline(CallInput::Json(json!({"q": 1}))),
        triage: CallTriage {
            gate,
            rule: ReplayRule::Safe,
            place,
            in_doubt: InDoubtPolicy::TellModel,
            has_check: false,
            exclusive: false,
            deadline_ms: 1,
            attempts_max: 1,
            slot: false,
        },
    }
}

pub(in crate::messages) fn call(reply: u64, index: u16) -> CallId {
    CallId {
        epoch: Epoch(1),
        reply: Seq(reply),
        index,
    }
}

pub(in crate::messages) fn settled(call: CallId, text: &str) -> Event {
    Event::CallSettled {
        call,
        settlement: Settlement::Done,
        output: ToolOutput::text(text).into(),
    }
}

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
