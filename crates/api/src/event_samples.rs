//! Events of a conversation, for tests of what is folded from them.

use serde_json::json;
use steadfast_core::command::MessageOptions;
use steadfast_core::content::{
    CallInput, ContentPart, Finish, ReplyPart, Stored, ToolOutput, Usage,
};
use steadfast_core::event::{Event, RecordedCall, Settlement, TurnOutcome};
use steadfast_core::id::{CallId, CommandId, Epoch, Seq, TurnId};
use steadfast_core::input::{CallTriage, Gate, InDoubtPolicy, Place, ReplayRule};

pub(crate) fn queued(id: &str, text: &str) -> Event {
    Event::TurnQueued {
        message: CommandId::new(id).unwrap(),
        content: vec![Stored::Inline(ContentPart::Text { text: text.into() })],
        options: MessageOptions::default(),
    }
}

pub(crate) fn turn(seq: u64) -> TurnId {
    TurnId(Seq(seq))
}

pub(crate) fn started(seq: u64) -> Event {
    Event::TurnStarted { turn: turn(seq) }
}

pub(crate) fn ended(seq: u64) -> Event {
    Event::TurnEnded {
        turn: turn(seq),
        outcome: TurnOutcome::Completed {
            finish: Finish::Stop,
        },
    }
}

pub(crate) fn text_part(text: &str) -> Stored<ReplyPart> {
    Stored::Inline(ReplyPart::Text {
        text: text.into(),
        native: None,
    })
}

pub(crate) fn reply(of: u64, parts: Vec<Stored<ReplyPart>>, calls: Vec<RecordedCall>) -> Event {
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

pub(crate) fn recorded(tool: &str, gate: Gate, place: Place) -> RecordedCall {
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
            agent: None,
        },
    }
}

pub(crate) fn call(reply: u64, index: u16) -> CallId {
    CallId {
        epoch: Epoch(1),
        reply: Seq(reply),
        index,
    }
}

pub(crate) fn settled(call: CallId, text: &str) -> Event {
    Event::CallSettled {
        call,
        settlement: Settlement::Done,
        output: ToolOutput::text(text).into(),
    }
}
