//! Following a session while it runs.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use serde_json::json;
use steadfast_core::content::{Finish, ModelReply, ReplyPart, Stored, Usage};
use steadfast_core::event::Event;
use steadfast_core::id::Seq;
use steadfast_core::input::{FailureClass, ModelFailure, Policy};
use steadfast_core::receipt::End;
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::request::ModelRequest;
use steadfast_protocol::live::Delta;
use steadfast_runtime::sessions::Followed;
use steadfast_tools::catalog::Catalog;
use tokio::sync::mpsc;
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;

use crate::world::{Node, World, agents, caught_up, key, script, word};

pub(crate) fn slow_text() -> String {
    script(json!([
        { "text": "abcdefghij", "chunks": 10, "delay": 1.0, "tool": "look", "input": {} },
        { "text": "done" }
    ]))
}

/// One line for all that a follower is given until the turn ends.
pub(crate) async fn told(node: &Node, session: &str, after: Seq) -> String {
    let mut follower = node.sessions.follow(&key(session), after, true);
    let mut lines = Vec::new();
    loop {
        match follower.next().await.unwrap().unwrap() {
            Followed::Record { from, record } => {
                let events = record.entries.iter().flat_map(|entry| &entry.events);
                let skipped = from.0 - record.first_seq.0;
                let events: Vec<_> = events.skip(skipped as usize).collect();
                lines.extend(events.iter().map(|event| word(event)));
                if events
                    .iter()
                    .any(|event| matches!(event, Event::TurnEnded { .. }))
                {
                    return lines.join(" ");
                }
            }
            Followed::Live(frame) => lines.push(match &frame.delta {
                Delta::Text { text, .. } => format!("[{text}]"),
                other => format!("{other:?}"),
            }),
            Followed::CaughtUp { seq } => lines.push(format!("caught-up({seq})")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_sees_the_text_before_it_is_committed() {
    let world = World::new();
    let node = world.start().await;
    let (key, text) = (key("s"), slow_text());
    let (sent, told) = tokio::join!(node.send(&key, "m1", &text), told(&node, "s", Seq(0)));
    drop(sent);
    insta::assert_snapshot!(told, @r#"caught-up(0) activated session_created turn_queued command_settled turn_started step_started [a] [b] [c] [d] [e] [f] [g] [h] [i] [j] ToolInput { index: 0, tool: "look", text: "{}" } model_replied call_started call_settled step_started model_replied turn_ended"#);
}

#[tokio::test(start_paused = true)]
async fn a_late_follower_sees_the_open_step_from_its_start() {
    let world = World::new();
    let node = world.start().await;
    node.send(&key("s"), "m1", &slow_text()).await;
    sleep(Duration::from_millis(4_500)).await;
    insta::assert_snapshot!(told(&node, "s", Seq(2)).await, @r#"turn_queued command_settled turn_started step_started caught-up(6) [a] [b] [c] [d] [e] [f] [g] [h] [i] [j] ToolInput { index: 0, tool: "look", text: "{}" } model_replied call_started call_settled step_started model_replied turn_ended"#);
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_comes_after_the_end_sees_what_is_committed() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &slow_text()).await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    node.until_gone().await;
    let given = caught_up(&node, &key, Seq(7)).await;
    let seqs: Vec<(u64, u64)> = given
        .iter()
        .filter_map(|item| match item {
            Followed::Record { from, record } => Some((from.0, record.last_seq().0)),
            _ => None,
        })
        .collect();
    let gapless = seqs.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0);
    assert!(gapless && seqs[0].0 == 8, "{seqs:?}");
    assert!(given.iter().all(|item| !matches!(item, Followed::Live(_))));
}

/// Breaks off in the middle of its first reply.
struct BreaksOff;

#[async_trait]
impl ModelProvider for BreaksOff {
    async fn reply(
        &self,
        request: ModelRequest,
        deltas: mpsc::Sender<Delta>,
        _cancelled: CancellationToken,
    ) -> Result<ModelReply, ModelFailure> {
        let text = format!("attempt {}", request.attempt);
        let shown = text.clone();
        let _ = deltas
            .send(Delta::Text {
                part: 0,
                text: shown,
            })
            .await;
        sleep(Duration::from_secs(1)).await;
        if request.attempt == 1 {
            return Err(ModelFailure {
                class: FailureClass::Retryable {
                    retry_after_ms: None,
                },
                code: "broken_stream".into(),
                message: "as told".into(),
            });
        }
        Ok(ModelReply {
            wire: "test".into(),
            model: request.model,
            parts: vec![Stored::Inline(ReplyPart::Text { text, native: None })],
            calls: Vec::new(),
            finish: Finish::Stop,
            usage: Usage::default(),
        })
    }

    fn context_window_tokens(&self, _model: &str) -> Option<u64> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_attempt_showed_is_withdrawn() {
    let mut world = World::new();
    world.agents = agents(Arc::new(BreaksOff), Catalog::default(), Policy::default());
    let node = world.start().await;
    let key = key("s");
    let (sent, told) = tokio::join!(node.send(&key, "m1", "hello"), told(&node, "s", Seq(0)));
    drop(sent);
    insta::assert_snapshot!(told, @"caught-up(0) activated session_created turn_queued command_settled turn_started step_started [attempt 1] Withdrawn model_call_failed [attempt 2] model_call_retried model_replied turn_ended");
}
