//! Requests from a session's transcript.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use proptest::prelude::*;
use serde::Serialize;
use serde_json::json;
use steadfast_core::command::PackedItems;
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{
    BlobHash, BlobRef, CallInput, CallOutput, ContentPart, ReplyPart, Stored, ToolOutput,
};
use steadfast_core::event::Settlement;
use steadfast_core::id::{CallId, CommandId, Epoch, Seq, SessionKey, TurnId};
use steadfast_core::input::{FailureClass, ModelFailure};
use steadfast_core::session::Session;
use steadfast_core::transcript::{CallResult, Item, ItemBody, TranscriptCall};
use steadfast_harness::native::guard::InvalidRequest;
use steadfast_harness::native::kept::{KeptHistory, Room};
use steadfast_harness::native::{BlobError, BlobSource, BuildError, ModelSettings, turn_request};
use steadfast_harness::request::{
    History, ModelRequest, Purpose, RequestCall, RequestItem, RequestResult,
};

use crate::support::{key, user};

/// Blobs in memory.
#[derive(Default)]
pub(crate) struct Blobs {
    held: Mutex<BTreeMap<BlobHash, Bytes>>,
    /// How many were asked for.
    loads: AtomicUsize,
}

impl Blobs {
    pub(crate) fn put(&self, value: &impl Serialize) -> BlobRef {
        let bytes = serde_json::to_vec(value).unwrap();
        let hash = BlobHash::of(&bytes);
        let size_bytes = bytes.len() as u64;
        self.held.lock().unwrap().insert(hash, bytes.into());
        BlobRef { hash, size_bytes }
    }
}

#[async_trait]
impl BlobSource for Blobs {
    async fn load(&self, _session: &SessionKey, blob: BlobRef) -> Result<Bytes, BlobError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let found = self.held.lock().unwrap().get(&blob.hash).cloned();
        found.ok_or_else(|| BlobError::Missing(blob.hash.to_string()))
    }
}

pub(crate) fn settings() -> ModelSettings {
    ModelSettings {
        model: "m".into(),
        instructions: "Be brief.".into(),
        tools: Arc::new(vec![]),
        output_tokens_max: Some(100),
        options: json!({"top_p": 0.5, "tool_choice": "auto"}),
        tool_choice: ToolChoice::Auto,
        output_schema: None,
    }
}

pub(crate) fn session(bodies: Vec<ItemBody>) -> Session {
    let mut session = Session::new(key());
    for (seq, body) in (1..).zip(bodies) {
        let item = Item {
            seq: Seq(seq),
            tokens: 1,
            body,
        };
        session.transcript.items.push_back(Arc::new(item));
    }
    session
}

/// A request built from nothing but the session.
async fn built(session: &Session, blobs: &Blobs) -> Result<ModelRequest, BuildError> {
    let kept = KeptHistory::new(Room::new(0));
    turn_request(session, &settings(), blobs, &kept).await
}

const TURN: TurnId = TurnId(Seq(1));

pub(crate) fn said(parts: Vec<Stored<ContentPart>>) -> ItemBody {
    ItemBody::User {
        turn: TURN,
        message: CommandId::new("m1").unwrap(),
        content: Arc::new(parts),
    }
}

pub(crate) fn inline_text(text: &str) -> Stored<ContentPart> {
    Stored::Inline(ContentPart::Text { text: text.into() })
}

fn call_id(reply: u64, index: u16) -> CallId {
    CallId {
        epoch: Epoch(1),
        reply: Seq(reply),
        index,
    }
}

pub(crate) fn replied(number: u64, text: &str, provider_ids: &[&str]) -> ItemBody {
    let calls = (0..).zip(provider_ids).map(|(index, id)| TranscriptCall {
        id: call_id(number, index),
        provider_call_id: (*id).into(),
        tool: "pay".into(),
        input: Arc::new(Stored::Inline(CallInput::Json(json!({"n": index})))),
    });
    ItemBody::Reply {
        turn: TURN,
        step: 1,
        wire: "anthropic".into(),
        model: "m".into(),
        parts: vec![Stored::Inline(ReplyPart::Text {
            text: text.into(),
            native: None,
        })],
        calls: calls.collect(),
    }
}

pub(crate) fn settled(number: u64, outputs: Vec<CallOutput>) -> ItemBody {
    let results = (0..).zip(outputs).map(|(index, output)| CallResult {
        id: call_id(number, index),
        provider_call_id: "ignored".into(),
        tool: "pay".into(),
        settlement: Settlement::Done,
        output,
    });
    ItemBody::Results {
        turn: TURN,
        results: results.collect(),
    }
}

fn shown(id: &str, text: &str, note: Option<&str>) -> RequestResult {
    RequestResult {
        id: id.into(),
        tool: "pay".into(),
        output: ToolOutput::text(text),
        note: note.map(str::to_owned),
    }
}

fn asked(text: &str, ids: &[&str]) -> RequestItem {
    RequestItem::Reply {
        wire: "anthropic".into(),
        model: "m".into(),
        parts: vec![ReplyPart::Text {
            text: text.into(),
            native: None,
        }],
        calls: (0..)
            .zip(ids)
            .map(|(index, id): (i32, _)| RequestCall {
                id: (*id).into(),
                tool: "pay".into(),
                input: CallInput::Json(json!({"n": index})),
            })
            .collect(),
    }
}

#[tokio::test]
async fn a_transcript_becomes_a_request_with_all_its_blobs() {
    let blobs = Blobs::default();
    let part = blobs.put(&ContentPart::Text {
        text: "from a blob".into(),
    });
    let output = blobs.put(&ToolOutput::text("long"));
    let summary = blobs.put(&"it began");
    let viewed = CallOutput {
        output: Stored::Blob(output),
        model_view: Some(Box::new(ToolOutput::text("lo..."))),
        note: Some("cut".into()),
    };
    let whole = CallOutput {
        output: Stored::Blob(output),
        model_view: None,
        note: None,
    };
    let session = session(vec![
        ItemBody::Summary {
            summary: Stored::Blob(summary),
        },
        said(vec![Stored::Blob(part), inline_text("b")]),
        replied(3, "ok", &["p1", "p2"]),
        settled(3, vec![viewed, whole]),
        ItemBody::Note {
            text: "a file changed".into(),
        },
    ]);
    let request = built(&session, &blobs).await.unwrap();
    assert_eq!(
        request.items,
        History::from(vec![
            user(
                "The earlier part of this conversation was condensed. This summary stands for \
                 all of it:\n\nit began"
            ),
            RequestItem::User {
                parts: ["from a blob", "b"]
                    .map(|text| ContentPart::Text { text: text.into() })
                    .into(),
            },
            asked("ok", &["p1", "p2"]),
            RequestItem::Results {
                results: vec![shown("p1", "lo...", Some("cut")), shown("p2", "long", None)],
            },
            user("Note from the system, not from the user: a file changed"),
        ])
    );
    assert_eq!(
        (request.purpose, request.attempt, request.output_tokens_max),
        (Purpose::Turn, 1, Some(100))
    );
}

#[tokio::test]
async fn packs_are_opened_however_deep_up_to_the_end_that_counts() {
    let blobs = Blobs::default();
    let pack = |items: &[Item]| ItemBody::Packed {
        packed: PackedItems {
            blob: blobs.put(&items),
            items: u32::try_from(items.len()).unwrap(),
            first_seq: Seq(1),
            last_seq: Seq(1),
            tokens: 1,
        },
    };
    let item = |body| Item {
        seq: Seq(1),
        tokens: 1,
        body,
    };
    let rewound = Item {
        seq: Seq(2),
        ..item(said(vec![inline_text("rewound")]))
    };
    let inner = pack(&[
        item(said(vec![inline_text("a")])),
        item(replied(1, "b", &[])),
        rewound,
    ]);
    let outer = pack(&[item(inner)]);
    let session = session(vec![outer, said(vec![inline_text("c")])]);
    let request = built(&session, &blobs).await.unwrap();
    let expected = History::from(vec![user("a"), asked("b", &[]), user("c")]);
    assert_eq!(request.items, expected);
}

#[tokio::test]
async fn each_call_has_an_id_of_its_own_however_the_provider_names_them() {
    let done = || vec![CallOutput::from(ToolOutput::text("x"))];
    let session = session(vec![
        said(vec![inline_text("a")]),
        replied(2, "", &["call_0"]),
        settled(2, done()),
        replied(4, "", &["call_0"]),
        settled(4, done()),
        replied(6, "", &[""]),
        settled(6, done()),
        // A fork's calls may have the same numbers.
        replied(6, "", &[""]),
        settled(6, done()),
    ]);
    let request = built(&session, &Blobs::default()).await.unwrap();
    let ids: Vec<&str> = request
        .items
        .iter()
        .filter_map(|item| match item {
            RequestItem::Reply { calls, .. } => Some(calls[0].id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["call_0", "call-1-4-0", "call-1-6-0", "call-1-6-0-2"]);
}

#[tokio::test]
async fn what_cannot_be_built_is_a_failure_with_a_class() {
    let missing = BlobRef {
        hash: BlobHash::of(b"?"),
        size_bytes: 1,
    };
    let blobs = Blobs::default();
    let odd = blobs.put(&json!({"type": "nonsense"}));
    let fatal = |code: &str| (FailureClass::Fatal, code.to_owned());
    for (bodies, expected) in [
        (
            vec![said(vec![Stored::Blob(missing)])],
            fatal("history_damaged"),
        ),
        (
            vec![said(vec![Stored::Blob(odd)])],
            fatal("history_damaged"),
        ),
        (vec![], fatal("invalid_request")),
        (
            vec![said(vec![inline_text("a")]), replied(2, "", &["p1"])],
            fatal("invalid_request"),
        ),
    ] {
        let built = built(&session(bodies), &blobs).await;
        let failure = ModelFailure::from(built.unwrap_err());
        assert_eq!((failure.class, failure.code), expected);
    }
    let unavailable = BuildError::from(BlobError::Unavailable("x".into()));
    let again = FailureClass::Retryable {
        retry_after_ms: None,
    };
    assert_eq!(ModelFailure::from(unavailable).class, again);
}

#[tokio::test]
async fn a_result_of_another_reply_is_refused() {
    let session = session(vec![
        said(vec![inline_text("a")]),
        replied(2, "", &["p1"]),
        settled(9, vec![ToolOutput::text("x").into()]),
    ]);
    let built = built(&session, &Blobs::default()).await;
    let unasked = InvalidRequest::Unasked("unasked-1-9-0".into());
    assert_eq!(built, Err(BuildError::Invalid(unasked)));
}

/// One step of a turn: a reply with a call, and its result, which is a blob.
fn step(blobs: &Blobs, number: u64) -> [ItemBody; 2] {
    let output = CallOutput {
        output: Stored::Blob(blobs.put(&ToolOutput::text(format!("result {number}")))),
        model_view: None,
        note: None,
    };
    [
        replied(number, "go on", &[""]),
        settled(number, vec![output]),
    ]
}

fn push(session: &mut Session, bodies: impl IntoIterator<Item = ItemBody>) {
    for body in bodies {
        let items = &mut session.transcript.items;
        let seq = items.last().map_or(Seq(1), |item| item.seq.next());
        items.push_back(Arc::new(Item {
            seq,
            tokens: 1,
            body,
        }));
    }
}

#[tokio::test]
async fn each_blob_of_a_long_turn_is_read_once() {
    let blobs = Blobs::default();
    let (first, rest): (Vec<u64>, Vec<u64>) = ((0..20).collect(), (20..60).collect());
    let mut older = Session::new(key());
    push(&mut older, [said(vec![inline_text("a")])]);
    first
        .iter()
        .for_each(|number| push(&mut older, step(&blobs, *number)));
    let held: Vec<Item> = older
        .transcript
        .items
        .iter()
        .map(|item| Item::clone(item))
        .collect();
    let packed = PackedItems {
        blob: blobs.put(&held),
        items: u32::try_from(held.len()).unwrap(),
        first_seq: Seq(1),
        last_seq: older.transcript.items.last().unwrap().seq,
        tokens: 1,
    };
    let mut session = Session::new(key());
    push(&mut session, [ItemBody::Packed { packed }]);
    let kept = KeptHistory::new(Room::new(1 << 20));
    for number in rest {
        push(&mut session, step(&blobs, number));
        let request = turn_request(&session, &settings(), &blobs, &kept)
            .await
            .unwrap();
        assert_eq!(request.items.len() as u64, 2 * number + 3);
    }
    // The packed run, and each of the 60 results.
    assert_eq!(blobs.loads.load(Ordering::Relaxed), 61);
}

#[tokio::test]
async fn without_room_each_request_is_built_anew() {
    let blobs = Blobs::default();
    let mut session = session(vec![said(vec![inline_text("a")])]);
    push(&mut session, step(&blobs, 2));
    let room = Room::new(3 * 1024);
    let (one, two) = (KeptHistory::new(room.clone()), KeptHistory::new(room));
    let mut loads = Vec::new();
    for kept in [&one, &two, &one, &two] {
        turn_request(&session, &settings(), &blobs, kept)
            .await
            .unwrap();
        loads.push(blobs.loads.swap(0, Ordering::Relaxed));
    }
    assert_eq!(loads, [1, 1, 0, 1]);
}

/// What becomes of a transcript between two requests.
#[derive(Debug, Clone)]
enum Change {
    Step,
    Say,
    Rewind(usize),
    Compact(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => Just(Change::Step),
        1 => Just(Change::Say),
        1 => (0_usize..9).prop_map(Change::Rewind),
        1 => (0_usize..9).prop_map(Change::Compact),
    ]
}

impl Change {
    fn make(&self, session: &mut Session, blobs: &Blobs, number: u64) {
        let items = &mut session.transcript.items;
        match self {
            Self::Step => push(session, step(blobs, number)),
            Self::Say => push(session, [said(vec![inline_text(&format!("say {number}"))])]),
            // Pairs of reply and result stay whole.
            Self::Rewind(pairs) => {
                let length = items.len().saturating_sub(2 * pairs).max(1);
                items.truncate(length);
            }
            Self::Compact(pairs) => {
                let kept = items.skip((1 + 2 * pairs).min(items.len()));
                *items = kept;
                let seq = items.front().map_or(Seq(1), |item| item.seq);
                items.push_front(Arc::new(Item {
                    seq,
                    tokens: 1,
                    body: ItemBody::Summary {
                        summary: Stored::Inline(format!("summary {number}")),
                    },
                }));
            }
        }
    }
}

proptest! {
    #[test]
    fn a_request_built_on_the_one_before_is_as_one_built_anew(
        changes in proptest::collection::vec(change(), 1..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let blobs = Blobs::default();
        let mut session = session(vec![said(vec![inline_text("a")])]);
        let kept = KeptHistory::new(Room::new(1 << 20));
        for (number, change) in (1_000..).zip(changes) {
            change.make(&mut session, &blobs, number);
            let anew = runtime.block_on(built(&session, &blobs));
            let added = runtime.block_on(turn_request(&session, &settings(), &blobs, &kept));
            prop_assert_eq!(added, anew);
        }
    }
}
