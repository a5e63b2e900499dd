//! What a client is told of a turn.

mod story;

use proptest::prelude::*;
use serde_json::json;
use steadfast_core::command::MessageOptions;
use steadfast_core::content::{ContentPart, ReplyPart, Stored, ToolOutput};
use steadfast_core::event::Settlement;
use steadfast_core::id::NodeId;
use steadfast_core::input::{Gate, Place, Policy};
use steadfast_protocol::live::Delta;

use super::*;
use crate::event_samples::{recorded, reply, text_part, turn};
use story::{ASKS, Story, begin, completed, decided, ended, requested, settled, step, text};

#[test]
fn a_reply_alone_is_a_whole_message() {
    let mut story = Story::new(0);
    story
        .events(&begin())
        .events(&[reply(1, vec![text_part("hello")], vec![]), completed()]);
    insta::assert_snapshot!(story.told(), @r#"
    start {"messageId":"assistant-1"}
    start-step
    text-start {"id":"1-0"}
    text-delta {"delta":"hello","id":"1-0"}
    text-end {"id":"1-0"}
    finish-step
    finish {"finishReason":"stop"}
    "#);
}

#[test]
fn what_was_shown_is_completed_by_the_reply() {
    let mut story = Story::live();
    story
        .events(&begin())
        .delta(1, text("he"))
        .delta(1, text("ll"))
        .events(&[reply(1, vec![text_part("hello")], vec![]), completed()]);
    insta::assert_snapshot!(story.told(), @r#"
    start {"messageId":"assistant-1"}
    start-step
    text-start {"id":"1-0"}
    text-delta {"delta":"he","id":"1-0"}
    text-delta {"delta":"ll","id":"1-0"}
    text-delta {"delta":"o","id":"1-0"}
    text-end {"id":"1-0"}
    finish-step
    finish {"finishReason":"stop"}
    "#);
}

#[test]
fn after_a_missed_frame_nothing_is_shown_until_the_reply() {
    let mut story = Story::live();
    story
        .events(&begin())
        .frame(0, 1, text("he"))
        .frame(2, 1, text("o"))
        .frame(3, 1, text("!"))
        .events(&[reply(1, vec![text_part("hello!")], vec![])]);
    insta::assert_snapshot!(story.told(), @r#"
    start {"messageId":"assistant-1"}
    start-step
    text-start {"id":"1-0"}
    text-delta {"delta":"he","id":"1-0"}
    text-delta {"delta":"llo!","id":"1-0"}
    text-end {"id":"1-0"}
    "#);
}

#[test]
fn what_the_reply_does_not_say_is_taken_back() {
    let mut story = Story::live();
    story.events(&begin()).delta(1, text("hal"));
    story.told();
    story.events(&[reply(1, vec![text_part("hello")], vec![])]);
    let reset = story.told();
    assert!(reset.starts_with("reset-step\ntext-start"), "{reset}");
}

#[test]
fn attempts_and_owners_that_failed_are_taken_back() {
    let again = Event::Activated {
        node: NodeId::new("n2").unwrap(),
        epoch: Epoch(2),
        policy: Policy::default(),
    };
    let mut story = Story::live();
    story.events(&begin()).delta(1, text("one"));
    story.told();
    story.delta(1, Delta::Withdrawn).delta(1, text("late"));
    assert_eq!(story.told(), "reset-step");
    story.frame(0, 2, text("two"));
    story.told();
    story.events(&[again]);
    assert_eq!(story.told(), "reset-step");
    // Of the owner before: its frames come late.
    story.epoch = 1;
    story.frame(1, 2, text("old"));
    assert_eq!(story.told(), "");
    story.epoch = 2;
    story.frame(0, 2, text("three"));
    story.events(&[ended(TurnOutcome::Failed {
        code: "model_unavailable".into(),
        message: "no model".into(),
    })]);
    insta::assert_snapshot!(story.told(), @r#"
    text-start {"id":"1-0"}
    text-delta {"delta":"three","id":"1-0"}
    reset-step
    finish-step
    message-metadata
    error {"errorText":"no model"}
    "#);
}

/// One call of each kind, answered by everybody; then the end.
fn mixed() -> Vec<Event> {
    let calls = vec![
        recorded("host", Gate::Open, Place::Local),
        recorded("client", Gate::Open, Place::Client),
        recorded("yes", ASKS, Place::Local),
        recorded("no", ASKS, Place::Local),
        recorded("never", ASKS, Place::Local),
    ];
    let mut events = begin().to_vec();
    events.extend([
        reply(1, vec![], calls),
        requested(2),
        requested(3),
        requested(4),
        settled(0, Settlement::Done, json!({"__proto__": 1}).into()),
        settled(1, Settlement::Done, "from the client".into()),
        decided(2, true),
        settled(2, Settlement::Done, ToolOutput::error("it broke")),
        decided(3, false),
        settled(
            3,
            Settlement::Denied,
            ToolOutput::ExecutionDenied { reason: None },
        ),
        settled(
            4,
            Settlement::Expired,
            ToolOutput::ExecutionDenied { reason: None },
        ),
        completed(),
    ]);
    events
}

#[test]
fn calls_of_all_kinds_are_told_to_who_comes_late() {
    let mut story = Story::new(0);
    story.events(&mixed());
    insta::assert_snapshot!(story.told(), @r#"
    start {"messageId":"assistant-1"}
    start-step
    tool-input-available {"input":{"q":1},"toolCallId":"call-1-1-0","toolMetadata":{"callId":"1-4-0"},"toolName":"host"}
    tool-input-start {"toolCallId":"call-1-1-1","toolMetadata":{"callId":"1-4-1"},"toolName":"client"}
    tool-input-delta {"inputTextDelta":"{\"q\":1}","toolCallId":"call-1-1-1"}
    tool-input-available {"input":{"q":1},"toolCallId":"call-1-1-2","toolMetadata":{"callId":"1-4-2"},"toolName":"yes"}
    tool-input-available {"input":{"q":1},"toolCallId":"call-1-1-3","toolMetadata":{"callId":"1-4-3"},"toolName":"no"}
    tool-input-available {"input":{"q":1},"toolCallId":"call-1-1-4","toolMetadata":{"callId":"1-4-4"},"toolName":"never"}
    tool-approval-request {"approvalId":"approval-1-4-2","toolCallId":"call-1-1-2"}
    tool-approval-request {"approvalId":"approval-1-4-3","toolCallId":"call-1-1-3"}
    tool-approval-request {"approvalId":"approval-1-4-4","toolCallId":"call-1-1-4"}
    tool-output-available {"output":{"(__proto__)":1},"toolCallId":"call-1-1-0"}
    tool-output-available {"output":"from the client","toolCallId":"call-1-1-1"}
    tool-approval-response {"approvalId":"approval-1-4-2","approved":true}
    tool-output-error {"errorText":"it broke","toolCallId":"call-1-1-2"}
    tool-approval-response {"approvalId":"approval-1-4-3","approved":false}
    tool-output-denied {"toolCallId":"call-1-1-3"}
    tool-approval-response {"approvalId":"approval-1-4-4","approved":false,"reason":"nobody answered in time"}
    tool-output-denied {"toolCallId":"call-1-1-4"}
    finish-step
    finish {"finishReason":"stop"}
    "#);
}

#[test]
fn who_has_the_step_gets_its_answers_only() {
    let mut story = Story::new(1);
    story.events(&mixed());
    insta::assert_snapshot!(story.told(), @r#"
    start {"messageId":"assistant-1"}
    tool-output-available {"output":{"(__proto__)":1},"toolCallId":"call-1-1-0"}
    tool-output-available {"output":"from the client","toolCallId":"call-1-1-1"}
    tool-approval-response {"approvalId":"approval-1-4-2","approved":true}
    tool-output-error {"errorText":"it broke","toolCallId":"call-1-1-2"}
    tool-approval-response {"approvalId":"approval-1-4-3","approved":false}
    tool-output-denied {"toolCallId":"call-1-1-3"}
    tool-approval-response {"approvalId":"approval-1-4-4","approved":false,"reason":"nobody answered in time"}
    tool-output-denied {"toolCallId":"call-1-1-4"}
    finish {"finishReason":"stop"}
    "#);
}

#[test]
fn people_are_waited_for_only_when_all_else_is_done() {
    let mut story = Story::live();
    let calls = vec![
        recorded("host", Gate::Open, Place::Local),
        recorded("yes", ASKS, Place::Local),
    ];
    story.events(&begin());
    assert!(!story.fold.waits_for_people());
    story.events(&[reply(1, vec![], calls), requested(1)]);
    assert!(!story.fold.waits_for_people());
    story.events(&[settled(0, Settlement::Done, "done".into())]);
    assert!(story.fold.waits_for_people());
    story.told();
    story.fold.pause();
    assert_eq!(
        story.told(),
        "finish-step\nfinish {\"finishReason\":\"tool-calls\"}"
    );
}

#[test]
fn only_an_open_client_call_is_run_by_who_comes_late() {
    let calls = || vec![recorded("client", Gate::Open, Place::Client)];
    let mut story = Story::new(0);
    story.events(&begin()).events(&[reply(1, vec![], calls())]);
    let quiet = story.told();
    assert!(!quiet.contains("tool-input-available"), "{quiet}");
    story.fold.caught_up();
    assert!(story.told().starts_with("tool-input-available"));
    // One that is told its own answers has run it.
    let mut story = Story::new(1);
    story.events(&begin()).events(&[reply(1, vec![], calls())]);
    story.fold.caught_up();
    assert_eq!(story.told(), "start {\"messageId\":\"assistant-1\"}");
    // One that a person must allow first is run once that is done.
    let mut story = Story::live();
    let asking = vec![recorded("client", ASKS, Place::Client)];
    story
        .events(&begin())
        .events(&[reply(1, vec![], asking), requested(0)]);
    let before = story.told();
    assert!(!before.contains("tool-input-available"), "{before}");
    story.events(&[decided(0, true)]);
    assert!(story.told().contains("tool-input-available"));
}

#[test]
fn a_cancelled_turn_ends_by_abort_and_is_never_sent_back() {
    let mut story = Story::live();
    story.events(&begin()).delta(1, text("hal")).delta(
        1,
        Delta::ToolInput {
            index: 0,
            tool: "host".into(),
            text: "{\"a".into(),
        },
    );
    story.told();
    story.events(&[ended(TurnOutcome::Cancelled)]);
    insta::assert_snapshot!(story.told(), @r#"
    text-end {"id":"1-0"}
    tool-output-error {"errorText":"The call was not made: the turn ended first.","toolCallId":"call-1-1-0"}
    finish-step
    message-metadata
    abort {"reason":"cancelled"}
    "#);
    let mut story = Story::live();
    story.events(&begin()).events(&[
        reply(
            1,
            vec![],
            vec![recorded("client", Gate::Open, Place::Client)],
        ),
        settled(0, Settlement::Cancelled, ToolOutput::error("cancelled")),
        ended(TurnOutcome::Cancelled),
    ]);
    let told = story.told();
    assert!(
        told.ends_with(
            "finish-step\nstart-step\nfinish-step\nmessage-metadata\n\
             abort {\"reason\":\"cancelled\"}"
        ),
        "{told}"
    );
}

#[test]
fn a_message_that_joins_is_told_between_steps() {
    let steer = Event::TurnQueued {
        message: MessageId::new("m2").unwrap(),
        content: vec![Stored::Inline(ContentPart::Text {
            text: "hurry".into(),
        })],
        options: MessageOptions {
            when_busy: WhenBusy::Steer,
            ..MessageOptions::default()
        },
    };
    let mut story = Story::live();
    story
        .events(&begin())
        .events(&[reply(1, vec![text_part("a")], vec![])]);
    story.told();
    story.events(&[
        steer,
        Event::MessageJoined {
            queued: TurnId(Seq(5)),
            into: turn(1),
        },
        step(2),
    ]);
    insta::assert_snapshot!(story.told(), @r#"
    finish-step
    steering-message {"id":"m2","parts":[{"text":"hurry","type":"text"}]}
    start-step
    "#);
}

#[test]
fn a_message_that_waits_in_the_mailbox_finds_its_turn() {
    let message = MessageId::new("m1").unwrap();
    let mut story = Story::new(0);
    story.fold = Fold::new(Turn::Of(message.clone()), 0);
    story.events(&begin()[..2]);
    assert_eq!(story.told(), "start {\"messageId\":\"assistant-1\"}");
    let mut refused = Story::new(0);
    refused.fold = Fold::new(Turn::Of(message.clone()), 0);
    refused.events(&[Event::CommandSettled {
        command: message,
        digest: steadfast_core::command::Digest(0),
        verdict: Verdict::Rejected {
            reason: steadfast_core::event::Rejection::QueueFull,
        },
    }]);
    assert_eq!(
        refused.told(),
        "error {\"errorText\":\"the message was refused: queue_full\"}"
    );
}

/// What a client keeps of these chunks.
fn kept(chunks: Vec<Chunk>) -> Option<Value> {
    let mut message = crate::chat::message::Message::default();
    chunks.into_iter().for_each(|chunk| message.take(chunk));
    message.into_json()
}

/// What a model writes: texts, reasoning and calls in any order.
fn parts_strategy() -> impl Strategy<Value = Vec<(u8, String)>> {
    prop::collection::vec((0_u8..3, "[a-z]{0,6}"), 0..6)
}

proptest! {
    /// Whatever frames a client saw, lost or got late: the committed reply makes the same message.
    #[test]
    fn live_frames_change_nothing_of_the_message(
        parts in parts_strategy(),
        shown in parts_strategy(),
        same in any::<bool>(),
        frames in prop::collection::vec((0_usize..8, 0_usize..8, any::<bool>(), 1_u32..3), 0..12),
        withdrawn in prop::option::of(0_usize..12),
    ) {
        let shown = if same { parts.clone() } else { shown };
        let (mut said, mut calls) = (Vec::new(), Vec::new());
        for (kind, text) in &parts {
            said.push(Stored::Inline(match kind {
                0 => ReplyPart::Text { text: text.clone(), native: None },
                1 => ReplyPart::Reasoning { text: text.clone(), native: None },
                _ => {
                    let index = u16::try_from(calls.len()).unwrap();
                    calls.push(recorded("host", Gate::Open, Place::Local));
                    ReplyPart::Call { index, native: None }
                }
            }));
        }
        let events = [reply(1, said, calls), completed()];
        let mut alone = Story::new(0);
        alone.events(&begin()).events(&events);
        let mut live = Story::live();
        live.events(&begin());
        let mut n = 0;
        for (at, (part, letters, lost, attempt)) in frames.into_iter().enumerate() {
            let Some((kind, text)) = shown.get(part) else { continue };
            let text: String = text.chars().take(letters).collect();
            let delta = match kind {
                0 => Delta::Text { part: u32::try_from(part).unwrap(), text },
                1 => Delta::Reasoning { part: u32::try_from(part).unwrap(), text },
                _ => {
                    let before = shown.iter().take(part).filter(|(kind, _)| *kind == 2);
                    let index = u16::try_from(before.count()).unwrap();
                    Delta::ToolInput { index, tool: "host".into(), text }
                }
            };
            if withdrawn == Some(at) {
                live.frame(n, attempt, Delta::Withdrawn);
                n += 1;
            }
            if !lost {
                live.frame(n, attempt, delta);
            }
            n += 1;
        }
        live.events(&events);
        prop_assert_eq!(kept(live.fold.take()), kept(alone.fold.take()));
    }
}
