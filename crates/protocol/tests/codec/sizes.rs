//! A Record of the largest input fits, so that "too large" cannot happen.

use proptest::prelude::*;
use steadfast_core::command::{Command, CommandBody, MessageOptions, NewSession};
use steadfast_core::content::{
    CallInput, ContentPart, Finish, ModelReply, ProposedCall, ReplyPart, Stored, Usage,
};
use steadfast_core::effect::Effect;
use steadfast_core::id::Epoch;
use steadfast_core::input::{Activate, CallTriage, Gate, Input, Policy};
use steadfast_core::limits::{INPUT_INLINE_BYTES_MAX, PARTS_PER_INPUT_MAX, RECORD_BYTES_MAX};
use steadfast_core::session::Session;
use steadfast_core::{apply, decide, outstanding};
use steadfast_protocol::encoded_bytes;
use steadfast_protocol::record::{self, Cause, Entry, Record, RecordHash};

use crate::samples::{self, NOW, agent, command, key, node};

/// Longest text of an id.
const ID_CHARS_MAX: usize = 128;

/// Decides, applies and gives the size of the Record.
fn commit(session: &mut Session, input: &Input) -> usize {
    let events = decide(session, input, NOW).events;
    let cause = Cause::Command {
        id: command(&"c".repeat(ID_CHARS_MAX)),
    };
    let record = Record {
        first_seq: session.seq.next(),
        epoch: session.epoch,
        prev: RecordHash::of(b"the record before"),
        entries: vec![Entry {
            cause,
            at: NOW,
            events: events.clone(),
        }],
    };
    for event in &events {
        apply(session, NOW, event);
    }
    let bytes = record::encode(&record).unwrap();
    assert_eq!(record::decode(&bytes), Ok(record));
    bytes.len()
}

fn submit(content: Vec<Stored<ContentPart>>) -> Input {
    let new = NewSession {
        agent: agent(),
        metadata: serde_json::Value::Null,
        tags: Vec::new(),
    };
    let body = CommandBody::Submit {
        content,
        options: MessageOptions::default(),
        new: Some(new),
    };
    let id = command(&"m".repeat(ID_CHARS_MAX));
    let command = Command { id, body };
    Input::Command {
        command,
        receipted: true,
    }
}

fn activated() -> Session {
    let mut session = Session::new(key());
    let activate = Activate {
        node: node(&"n".repeat(64)),
        epoch_min: Epoch(u64::from(u32::MAX)),
        policy: Policy::default(),
        open_calls: Vec::new(),
    };
    commit(&mut session, &Input::Activate(activate));
    session
}

/// Texts so that `wrap` of them take as much as is allowed inline, in shares as given.
fn shares<T: serde::Serialize>(weights: &[u16], wrap: impl Fn(String) -> T) -> Vec<T> {
    let empty = encoded_bytes(&wrap("x".repeat(70_000))).unwrap() - 70_000;
    let room = INPUT_INLINE_BYTES_MAX - empty * weights.len();
    let total: usize = weights.iter().map(|weight| 1 + usize::from(*weight)).sum();
    let share = |weight: &u16| "x".repeat(room * (1 + usize::from(*weight)) / total);
    weights.iter().map(|weight| wrap(share(weight))).collect()
}

fn reply_to(session: &Session, calls: usize, weights: &[u16], triage: &CallTriage) -> Input {
    let call = (0..calls).map(|index| ReplyPart::Call {
        index: index.try_into().unwrap(),
        native: None,
    });
    let placed = call.map(Stored::Inline);
    let texts = shares(weights, |text| {
        Stored::Inline(ReplyPart::Text { text, native: None })
    });
    let proposed = ProposedCall {
        provider_call_id: "p".repeat(64),
        tool: "t".repeat(64),
        input: Stored::Inline(CallInput::Json(serde_json::json!({}))),
    };
    let effect: Option<Effect> = outstanding(session).into_iter().next();
    Input::ModelReplied {
        effect: effect.expect("a model call is wanted"),
        reply: ModelReply {
            wire: "anthropic".into(),
            model: "m".repeat(64),
            parts: placed.chain(texts).collect(),
            calls: vec![proposed; calls],
            finish: Finish::ToolCalls,
            usage: Usage::default(),
        },
        triage: vec![triage.clone(); calls],
        unfit: None,
    }
}

/// Weights of the parts beside the calls: as many as a reply may still have.
fn reply_shape() -> impl Strategy<Value = (usize, Vec<u16>)> {
    (0..PARTS_PER_INPUT_MAX / 2).prop_flat_map(|calls| {
        let rest = PARTS_PER_INPUT_MAX - 2 * calls;
        (
            Just(calls),
            proptest::collection::vec(any::<u16>(), 1..=rest),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_record_of_the_largest_message_fits(
        weights in proptest::collection::vec(any::<u16>(), 1..=PARTS_PER_INPUT_MAX),
    ) {
        let content = shares(&weights, |text| Stored::Inline(ContentPart::Text { text }));
        let bytes = commit(&mut activated(), &submit(content));
        prop_assert!(bytes > INPUT_INLINE_BYTES_MAX * 9 / 10, "{bytes}: not the largest");
        prop_assert!(bytes <= RECORD_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn the_record_of_the_largest_reply_fits((calls, weights) in reply_shape()) {
        let mut session = activated();
        commit(&mut session, &submit(Vec::new()));
        for triage in samples::content::triages() {
            // How many words refusals may have is bounded where replies come in.
            if matches!(triage.gate, Gate::Refused { .. }) {
                continue;
            }
            let reply = reply_to(&session, calls, &weights, &triage);
            let bytes = commit(&mut session.clone(), &reply);
            prop_assert!(bytes > INPUT_INLINE_BYTES_MAX * 9 / 10, "{bytes}: not the largest");
            prop_assert!(bytes <= RECORD_BYTES_MAX, "{bytes}");
        }
    }
}
