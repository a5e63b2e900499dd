//! One value of every kind that is kept as bytes. The golden files hold these very values.

mod added;
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

/// Records by the name of their golden file: one for each kind of event, one for each shape that
/// was added to one, one for the causes.
pub(crate) fn records() -> BTreeMap<String, Record> {
    let mut by_event: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in events() {
        by_event.entry(tag(&event)).or_default().push(event);
    }
    for (name, event) in added::added() {
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
