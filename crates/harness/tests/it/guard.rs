//! A request that is not valid never leaves.

use serde_json::json;
use steadfast_core::content::{CallInput, ReplyPart, ToolOutput};
use steadfast_harness::native::guard::{InvalidRequest, prove};
use steadfast_harness::request::{RequestCall, RequestItem};

use crate::support::{request, result, user};

fn reply(parts: Vec<ReplyPart>, ids: &[&str]) -> RequestItem {
    RequestItem::Reply {
        wire: "anthropic".into(),
        model: "m".into(),
        parts,
        calls: ids
            .iter()
            .map(|id| RequestCall {
                id: (*id).into(),
                tool: "get_weather".into(),
                input: CallInput::Json(json!({})),
            })
            .collect(),
    }
}

fn results(ids: &[&str]) -> RequestItem {
    RequestItem::Results {
        results: ids
            .iter()
            .map(|id| result(id, ToolOutput::text("x")))
            .collect(),
    }
}

fn place(index: u16) -> ReplyPart {
    ReplyPart::Call {
        index,
        native: None,
    }
}

#[test]
fn a_history_whose_calls_are_answered_may_leave() {
    let items = vec![
        user("a"),
        reply(vec![place(1), place(0)], &["c1", "c2"]),
        results(&["c1", "c2"]),
        reply(vec![], &["c3"]),
        results(&["c3"]),
        user("b"),
    ];
    assert_eq!(prove(&request(items)), Ok(()));
}

#[test]
fn each_fault_is_named() {
    let asked = |ids: &[&str]| reply(vec![], ids);
    let unanswered = |id: &str| InvalidRequest::Unanswered(id.into());
    for (items, fault) in [
        (vec![], InvalidRequest::EmptyHistory),
        (
            vec![asked(&[]), user("a")],
            InvalidRequest::BadStart("a reply"),
        ),
        (vec![results(&["c1"])], InvalidRequest::Unasked("c1".into())),
        (vec![user("a"), asked(&["c1"])], unanswered("c1")),
        (vec![user("a"), asked(&["c1"]), user("b")], unanswered("c1")),
        (
            vec![user("a"), asked(&["c1"]), asked(&[]), user("b")],
            unanswered("c1"),
        ),
        (
            vec![user("a"), asked(&["c1", "c2"]), results(&["c1"])],
            unanswered("c2"),
        ),
        (
            vec![user("a"), asked(&["c1"]), results(&["c1", "c2"])],
            InvalidRequest::Unasked("c2".into()),
        ),
        (
            vec![
                user("a"),
                asked(&["c1"]),
                results(&["c1"]),
                results(&["c1"]),
            ],
            InvalidRequest::Unasked("c1".into()),
        ),
        (
            vec![user("a"), asked(&["c1", "c2"]), results(&["c2", "c1"])],
            InvalidRequest::OutOfOrder {
                wanted: "c1".into(),
                found: "c2".into(),
            },
        ),
        (
            vec![
                user("a"),
                asked(&["c1"]),
                results(&["c1"]),
                asked(&["c1"]),
                results(&["c1"]),
            ],
            InvalidRequest::RepeatedCallId("c1".into()),
        ),
        (
            vec![user("a"), asked(&[""]), results(&[""])],
            InvalidRequest::NoCallId("get_weather".into()),
        ),
        (
            vec![user("a"), reply(vec![place(1)], &["c1"]), results(&["c1"])],
            InvalidRequest::MisplacedCall { index: 1, calls: 1 },
        ),
        (
            vec![
                user("a"),
                reply(vec![place(0), place(0)], &["c1"]),
                results(&["c1"]),
            ],
            InvalidRequest::MisplacedCall { index: 0, calls: 1 },
        ),
        (vec![user("a"), asked(&[])], InvalidRequest::NothingAsked),
    ] {
        assert_eq!(prove(&request(items)), Err(fault));
    }
}

#[test]
fn a_request_names_its_model() {
    let mut nameless = request(vec![user("a")]);
    nameless.model = " ".into();
    assert_eq!(prove(&nameless), Err(InvalidRequest::NoModel));
}

#[test]
fn a_reply_that_its_provider_paused_may_stand_last() {
    let tool = ReplyPart::ProviderTool {
        id: "s1".into(),
        name: "web_search".into(),
        input: json!({}),
        output: None,
        native: None,
    };
    assert_eq!(
        prove(&request(vec![user("a"), reply(vec![tool], &[])])),
        Ok(())
    );
}
