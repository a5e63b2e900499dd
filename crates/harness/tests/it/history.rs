//! Requests from a session's transcript.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use steadfast_core::command::PackedItems;
use steadfast_core::content::{
    BlobHash, BlobRef, CallInput, CallOutput, ContentPart, ReplyPart, Stored, ToolOutput,
};
use steadfast_core::event::Settlement;
use steadfast_core::id::{CallId, CommandId, Epoch, Seq, SessionKey, TurnId};
use steadfast_core::input::{FailureClass, ModelFailure};
use steadfast_core::session::Session;
use steadfast_core::transcript::{CallResult, Item, ItemBody, TranscriptCall};
use steadfast_harness::native::guard::InvalidRequest;
use steadfast_harness::native::{BlobError, BlobSource, BuildError, ModelSettings, turn_request};
use steadfast_harness::request::{Purpose, RequestCall, RequestItem, RequestResult};

use crate::support::{key, user};

/// Blobs in memory.
#[derive(Default)]
pub(crate) struct Blobs {
    held: Mutex<BTreeMap<BlobHash, Bytes>>,
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
    let request = turn_request(&session, &settings(), &blobs).await.unwrap();
    assert_eq!(
        request.items,
        [
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
        ]
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
    let request = turn_request(&session, &settings(), &blobs).await.unwrap();
    assert_eq!(request.items, [user("a"), asked("b", &[]), user("c")]);
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
    let request = turn_request(&session, &settings(), &Blobs::default())
        .await
        .unwrap();
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
        let built = turn_request(&session(bodies), &settings(), &blobs).await;
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
    let built = turn_request(&session, &settings(), &Blobs::default()).await;
    let unasked = InvalidRequest::Unasked("unasked-1-9-0".into());
    assert_eq!(built, Err(BuildError::Invalid(unasked)));
}
