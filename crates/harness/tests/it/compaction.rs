//! Requests for a summary.

use serde_json::json;
use steadfast_core::content::{
    ContentPart, Finish, ModelReply, ReplyPart, Stored, ToolOutput, Usage,
};
use steadfast_core::id::Seq;
use steadfast_core::transcript::ItemBody;
use steadfast_harness::native::compaction::{compaction_request, summary_of};
use steadfast_harness::native::{BuildError, guard::InvalidRequest};
use steadfast_harness::request::{ModelRequest, Purpose, RequestItem};

use crate::history::{Blobs, inline_text, replied, said, session, settings, settled};

async fn ask(
    bodies: Vec<ItemBody>,
    through: u64,
    window: Option<u64>,
) -> Result<ModelRequest, BuildError> {
    let session = session(bodies);
    let settings = settings();
    compaction_request(&session, Seq(through), &settings, window, &Blobs::default()).await
}

fn text(request: &ModelRequest) -> &str {
    let items: Vec<&RequestItem> = request.items.iter().collect();
    match &items[..] {
        [RequestItem::User { parts }] => match &parts[..] {
            [ContentPart::Text { text }] => text,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn conversation(request: &ModelRequest) -> &str {
    let text = text(request).strip_prefix("<conversation>\n").unwrap();
    text.split_once("</conversation>").unwrap().0
}

#[tokio::test]
async fn the_covered_part_is_shown_as_one_text_without_tools() {
    let request = ask(
        vec![
            ItemBody::Summary {
                summary: Stored::Inline("before".into()),
            },
            said(vec![inline_text("pay it")]),
            replied(3, "ok", &["p1"]),
            settled(3, vec![ToolOutput::error("no money").into()]),
            ItemBody::Note { text: "n".into() },
            said(vec![inline_text("not covered")]),
        ],
        5,
        None,
    )
    .await
    .unwrap();
    assert_eq!(
        conversation(&request),
        "[summary of what came before]\nbefore\n\n[user]\npay it\n\n[assistant]\nok\n\n\
         [assistant called pay]\n{\"n\":0}\n\n[result of pay]\nerror: no money\n\n\
         [note from the system]\nn\n\n"
    );
    assert!(request.tools.is_empty());
    assert_eq!(request.options, json!({"top_p": 0.5}));
    assert_eq!(request.purpose, Purpose::Compaction);
}

#[tokio::test]
async fn a_long_history_is_shortened_until_it_fits() {
    let long = "x".repeat(100_000);
    let mut bodies = vec![said(vec![inline_text("the task")])];
    for number in 0..40 {
        bodies.push(replied(number, "step", &["p"]));
        bodies.push(settled(number, vec![ToolOutput::text(long.clone()).into()]));
    }
    bodies.push(said(vec![inline_text("the end")]));
    for window in [8_000, 40_000, 400_000] {
        let request = ask(bodies.clone(), 1_000, Some(window)).await.unwrap();
        let shown = conversation(&request);
        assert!(shown.len() as u64 <= window * 3, "{} bytes", shown.len());
        assert!(shown.contains("the task") && shown.contains("the end"));
        assert!(shown.contains("bytes left out"));
    }
    let tiny = ask(bodies, 1_000, Some(1_500)).await.unwrap();
    assert!(conversation(&tiny).contains("entries left out"));
    assert!(conversation(&tiny).contains("the end"));
}

#[tokio::test]
async fn nothing_to_summarise_is_no_request() {
    let asked = ask(vec![said(vec![inline_text("a")])], 0, None).await;
    assert_eq!(
        asked,
        Err(BuildError::Invalid(InvalidRequest::EmptyHistory))
    );
}

#[test]
fn a_summary_is_the_text_of_the_reply_and_an_empty_one_is_none() {
    let reply = |text: &str| ModelReply {
        wire: "w".into(),
        model: "m".into(),
        parts: vec![
            Stored::Inline(ReplyPart::Reasoning {
                text: "hm".into(),
                native: None,
            }),
            Stored::Inline(ReplyPart::Text {
                text: text.into(),
                native: None,
            }),
        ],
        calls: vec![],
        finish: Finish::Stop,
        usage: Usage::default(),
    };
    assert_eq!(summary_of(&reply(" it \n")), Ok("it".into()));
    assert_eq!(summary_of(&reply(" ")).unwrap_err().code, "empty_summary");
}
