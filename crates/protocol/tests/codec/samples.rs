//! One value of every kind that is kept as bytes. The golden files hold these very values.

mod calls;
pub(crate) mod content;
mod messages;
mod state;
mod turns;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steadfast_core::child::{ParentCall, TurnShare};
use steadfast_core::command::{Digest, MessageOptions, ToolChoice};
use steadfast_core::content::Finish;
use steadfast_core::effect::Effect;
use steadfast_core::event::{
    Event, Notice, Rejection, TurnOutcome, TurnReport, Verdict, WaitKind, WaitingCall,
};
use steadfast_core::id::{
    AgentName, ApprovalId, CallId, CommandId, Epoch, NodeId, Seq, SessionId, SessionKey, TenantId,
    Timestamp, TurnId,
};
use steadfast_core::input::{CallTriage, Policy, ReportKind};
use steadfast_core::trace::Traceparent;
use steadfast_protocol::record::{Cause, Entry, Record, RecordHash};

pub(crate) use messages::{frames, letters};
pub(crate) use state::{receipt_blocks, snapshot, snapshot_5};

pub(crate) const NOW: Timestamp = Timestamp(1_900_000_000_123);

pub(crate) fn call(index: u16) -> CallId {
    CallId {
        epoch: Epoch(3),
        reply: Seq(17),
        index,
    }
}

pub(crate) fn turn(seq: u64) -> TurnId {
    TurnId(Seq(seq))
}

pub(crate) fn command(name: &str) -> CommandId {
    CommandId::new(name).unwrap()
}

pub(crate) fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

pub(crate) fn agent() -> AgentName {
    AgentName::new("support").unwrap()
}

pub(crate) fn key() -> SessionKey {
    SessionKey {
        tenant: TenantId::new("default").unwrap(),
        session: SessionId::new("chat-1").unwrap(),
    }
}

/// The name under which a value is written.
pub(crate) fn tag(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap();
    let tag = match &value {
        Value::Object(fields) => &fields["type"],
        other => other,
    };
    tag.as_str().unwrap().to_owned()
}

/// Every kind of event, each in all its shapes.
pub(crate) fn events() -> Vec<Event> {
    [
        turns::lifecycle(),
        turns::turns(),
        turns::model(),
        calls::calls(),
    ]
    .concat()
}

/// Every kind of effect.
fn effects() -> Vec<Effect> {
    let call = call(2);
    vec![
        Effect::ModelCall {
            epoch: Epoch(3),
            turn: turn(12),
            step: 4,
            attempt: 1,
        },
        Effect::Compaction {
            epoch: Epoch(3),
            number: 1,
            attempt: 2,
        },
        Effect::SlotReservation { call },
        Effect::ToolCall { call, attempt: 1 },
        Effect::Check { call, attempt: 1 },
        Effect::Job { call, attempt: 3 },
        Effect::Notice { number: 5 },
    ]
}

fn causes() -> Vec<Cause> {
    let mut causes = vec![
        Cause::Activate,
        Cause::Command {
            id: command("msg_1"),
        },
        Cause::Timer,
        Cause::Release,
    ];
    causes.extend(effects().into_iter().map(|effect| Cause::Effect { effect }));
    causes
}

fn record(entries: Vec<Entry>) -> Record {
    Record {
        first_seq: Seq(18),
        epoch: Epoch(3),
        prev: RecordHash::of(b"the record before"),
        entries,
    }
}

/// Shapes that came after the golden file of their event was written, each in a file of its own.
fn added() -> Vec<(&'static str, Event)> {
    let finish_paused = Event::TurnEnded {
        turn: turn(12),
        outcome: TurnOutcome::Completed {
            finish: Finish::Paused,
        },
    };
    let notice_under_claim = Event::NoticePosted {
        number: 5,
        notice: Notice::CancelJob {
            call: call(2),
            attempt: 1,
            tool: "refund".to_owned(),
            under_claim: true,
            agent: None,
        },
    };
    let turn_traced = Event::TurnQueued {
        message: command("msg_1"),
        content: Vec::new(),
        options: MessageOptions {
            traceparent: Some(Traceparent {
                trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
                span: 0xb7ad_6b71_6920_3331,
                flags: 1,
            }),
            ..MessageOptions::default()
        },
    };
    let steered = |tool_choice, output_schema| Event::TurnQueued {
        message: command("msg_1"),
        content: Vec::new(),
        options: MessageOptions {
            tool_choice: Some(tool_choice),
            output_schema,
            ..MessageOptions::default()
        },
    };
    let stops_after_tools = Event::Activated {
        node: node("n1-01jabc"),
        epoch: Epoch(3),
        policy: Policy {
            stop_after_tools: vec!["submit".to_owned()],
            ..Policy::default()
        },
    };
    let reports = Event::Activated {
        node: node("n1-01jabc"),
        epoch: Epoch(3),
        policy: Policy {
            reports: vec![ReportKind::Waiting, ReportKind::Ended],
            ..Policy::default()
        },
    };
    let parent = ParentCall {
        session: SessionId::new("above").unwrap(),
        call: call(2),
        depth: 1,
    };
    let turn_of_a_child = Event::TurnQueued {
        message: command("call-3-17-2"),
        content: Vec::new(),
        options: MessageOptions {
            parent: Some(Box::new(parent.clone())),
            share: Some(Box::new(TurnShare {
                steps_max: 7,
                tokens_max: Some(1_000),
            })),
            ..MessageOptions::default()
        },
    };
    let notice_to_a_parent = Event::NoticePosted {
        number: 6,
        notice: Notice::AnswerCall {
            parent,
            turn: turn(12),
            outcome: TurnOutcome::Cancelled,
            last_item: Some(Seq(20)),
        },
    };
    let notice_to_a_child = Event::NoticePosted {
        number: 6,
        notice: Notice::CancelJob {
            call: call(2),
            attempt: 1,
            tool: "research".to_owned(),
            under_claim: false,
            agent: Some(agent()),
        },
    };
    let call_of_an_agent = Event::ApprovalDecided {
        approval: ApprovalId(call(2)),
        approved: true,
        reason: None,
        triage: content::triages().pop().map(|triage| CallTriage {
            agent: Some(agent()),
            ..triage
        }),
    };
    let report = |report| Event::NoticePosted {
        number: 6,
        notice: Notice::ReportTurn {
            turn: turn(12),
            message: command("msg_1"),
            at: NOW,
            report,
        },
    };
    let waiting = TurnReport::Waiting {
        count: 1,
        calls: vec![WaitingCall {
            call: call(2),
            tool: "refund".to_owned(),
            kind: WaitKind::Approval,
        }],
    };
    let ended = TurnReport::Ended {
        outcome: TurnOutcome::Cancelled,
    };
    let schema = json!({"type": "object"});
    let call_blocked = Event::CommandSettled {
        command: command("retry_1"),
        digest: Digest(1 << 63),
        verdict: Verdict::Rejected {
            reason: Rejection::CallBlocked,
        },
    };
    vec![
        ("reports", reports),
        ("turn_of_a_child", turn_of_a_child),
        ("notice_to_a_parent", notice_to_a_parent),
        ("notice_to_a_child", notice_to_a_child),
        ("call_of_an_agent", call_of_an_agent),
        ("notice_of_a_wait", report(waiting)),
        ("notice_of_an_end", report(ended)),
        (
            "turn_with_schema",
            steered(ToolChoice::Required, Some(schema)),
        ),
        (
            "turn_with_tool",
            steered(ToolChoice::Tool("read".to_owned()), None),
        ),
        ("turn_without_tools", steered(ToolChoice::None, None)),
        ("stops_after_tools", stops_after_tools),
        ("call_blocked", call_blocked),
        ("finish_paused", finish_paused),
        ("notice_under_claim", notice_under_claim),
        ("turn_traced", turn_traced),
    ]
}

/// Records by the name of their golden file: one for each kind of event, one for each shape that
/// was added to one, one for the causes.
pub(crate) fn records() -> BTreeMap<String, Record> {
    let mut by_event: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in events() {
        by_event.entry(tag(&event)).or_default().push(event);
    }
    for (name, event) in added() {
        by_event.insert(name.to_owned(), vec![event]);
    }
    let of_events = by_event.into_iter().map(|(name, events)| {
        let entry = Entry {
            cause: Cause::Timer,
            at: NOW,
            events,
        };
        (format!("record.{name}"), record(vec![entry]))
    });
    let of_causes = causes().into_iter().map(|cause| Entry {
        cause,
        at: NOW,
        events: vec![Event::DeletionStarted],
    });
    let of_causes = record(of_causes.collect());
    of_events
        .chain([("record.causes".to_owned(), of_causes)])
        .collect()
}
