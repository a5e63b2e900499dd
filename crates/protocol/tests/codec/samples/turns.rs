//! Events of a session's life, of its turns and of its model calls.

use serde_json::{Value, json};
use steadfast_core::command::{
    Digest, ForkOrigin, MessageOptions, NewSession, PackedItems, WhenBusy,
};
use steadfast_core::content::{Finish, Stored};
use steadfast_core::effect::Wake;
use steadfast_core::event::{Event, LostCall, RecordedCall, Rejection, TurnOutcome, Verdict};
use steadfast_core::id::{Epoch, Seq, Timestamp};
use steadfast_core::input::{Durability, Policy};

use super::content::{blob, content, inputs, json_values, reply_parts, triages, usage};
use super::{NOW, agent, call, command, key, node, turn};

pub(crate) fn policy() -> Policy {
    Policy {
        durability: Durability::Strict,
        steps_max: 12,
        model_attempts_max: 4,
        queue_max: 8,
        turn_calls_max: Some(100),
        turn_tokens_max: Some(1_000_000),
        session_tokens_max: Some(9_000_000),
        turn_wall_ms_max: Some(3_600_000),
        compact_at_tokens: Some(150_000),
        stop_after_tools: Vec::new(),
        reports: Vec::new(),
    }
}

pub(crate) fn new_sessions() -> Vec<NewSession> {
    vec![
        NewSession {
            agent: agent(),
            metadata: json_values(),
            tags: vec!["red".into(), "big".into()],
        },
        NewSession {
            agent: agent(),
            metadata: Value::Null,
            tags: Vec::new(),
        },
    ]
}

pub(crate) fn origin() -> ForkOrigin {
    ForkOrigin {
        from: key(),
        at_seq: Seq(40),
        transcript: vec![PackedItems {
            blob: blob(),
            items: 12,
            first_seq: Seq(2),
            last_seq: Seq(40),
            tokens: 2_500,
        }],
    }
}

pub(crate) fn options() -> Vec<MessageOptions> {
    let busy = [
        WhenBusy::Queue,
        WhenBusy::Steer,
        WhenBusy::Interrupt,
        WhenBusy::Reject,
    ];
    let mut options: Vec<_> = busy
        .into_iter()
        .map(|when_busy| MessageOptions {
            when_busy,
            ..MessageOptions::default()
        })
        .collect();
    options.push(MessageOptions {
        when_busy: WhenBusy::Steer,
        turn_id: Some(turn(12)),
        replaces: Some(command("msg_0")),
        metadata: json!({"locale": "nb"}),
        active_tools: Some(vec!["get_weather".into()]),
        inactive_tools: Some(vec!["bash".into()]),
        tool_choice: None,
        output_schema: None,
        traceparent: None,
        parent: None,
        share: None,
    });
    options
}

pub(super) fn lifecycle() -> Vec<Event> {
    let activated = |policy| Event::Activated {
        node: node("n1-01jabc"),
        epoch: Epoch(3),
        policy,
    };
    let mut events = vec![
        activated(Policy::default()),
        activated(policy()),
        Event::TranscriptForked { origin: origin() },
        Event::DeletionStarted,
        Event::SessionDeleted,
        repaired(vec![LostCall {
            call: call(1),
            tool: "refund".into(),
        }]),
        repaired(Vec::new()),
    ];
    let lost = |outcome| Event::MessageLost {
        message: command("m1"),
        turn: turn(12),
        outcome,
    };
    events.extend(outcomes().into_iter().map(lost));
    let wakes = [Wake::Now, Wake::At(NOW), Wake::Never];
    events.extend(wakes.map(|wake| Event::Released { wake }));
    let created = |new| Event::SessionCreated { new };
    events.extend(new_sessions().into_iter().map(created));
    events
}

fn repaired(calls: Vec<LostCall>) -> Event {
    Event::LogRepaired {
        after: Seq(40),
        code: "record_corrupt".into(),
        detail: "corrupt record: a text is not UTF-8".into(),
        calls,
    }
}

fn verdicts() -> Vec<Verdict> {
    let rejections = [
        Rejection::SessionNotFound,
        Rejection::SessionExists,
        Rejection::SessionDeleting,
        Rejection::CommandConflict,
        Rejection::MessageTooOld,
        Rejection::TurnRunning,
        Rejection::TurnNotRunning,
        Rejection::QueueFull,
        Rejection::MessageNotFound,
        Rejection::MessageNotQueued,
        Rejection::MessageCompacted,
        Rejection::ApprovalNotFound,
        Rejection::ApprovalDecided,
        Rejection::CallNotFound,
        Rejection::CallNotWaiting,
        Rejection::NothingToCompact,
    ];
    let mut verdicts = vec![Verdict::Accepted { turn: turn(12) }, Verdict::Done];
    verdicts.extend(rejections.map(|reason| Verdict::Rejected { reason }));
    verdicts
}

pub(super) fn turns() -> Vec<Event> {
    let turn = turn(12);
    let mut events = vec![
        Event::MessageJoined {
            queued: super::turn(14),
            into: turn,
        },
        Event::TurnStarted { turn },
        Event::HoldLifted { turn },
    ];
    events.extend(verdicts().into_iter().map(|verdict| Event::CommandSettled {
        command: command("msg_1"),
        digest: Digest::of(b"a body"),
        verdict,
    }));
    events.extend(options().into_iter().map(|options| Event::TurnQueued {
        message: command("msg_1"),
        content: content(),
        options,
    }));
    events.extend(
        outcomes()
            .into_iter()
            .map(|outcome| Event::TurnEnded { turn, outcome }),
    );
    events.extend([None, Some(NOW)].map(|hold_until| Event::TurnCrashed {
        turn,
        in_row: 2,
        in_turn: 3,
        hold_until,
    }));
    events.extend(
        [None, Some("a mail was sent".into())]
            .map(|note| Event::TranscriptRewound { to: Seq(9), note }),
    );
    events
}

pub(crate) fn outcomes() -> Vec<TurnOutcome> {
    let mut outcomes: Vec<_> = finishes()
        .into_iter()
        .map(|finish| TurnOutcome::Completed { finish })
        .collect();
    outcomes.extend([
        TurnOutcome::Failed {
            code: "max_steps".into(),
            message: "12 model calls were not enough".into(),
        },
        TurnOutcome::Cancelled,
        TurnOutcome::Superseded,
        TurnOutcome::Rejected,
    ]);
    outcomes
}

fn finishes() -> [Finish; 6] {
    [
        Finish::Stop,
        Finish::ToolCalls,
        Finish::Length,
        Finish::Refusal,
        Finish::Other,
        Finish::Paused,
    ]
}

pub(super) fn model() -> Vec<Event> {
    let turn = turn(12);
    let calls = inputs().into_iter().cycle().zip(triages());
    let calls = calls.map(|(input, triage)| RecordedCall {
        provider_call_id: "toolu_01".into(),
        tool: "get_weather".into(),
        input,
        triage,
    });
    let mut events = vec![
        Event::StepStarted { turn, step: 4 },
        Event::ModelCallFailed {
            turn,
            step: 4,
            attempt: 1,
            code: "rate_limited".into(),
            message: "slow down".into(),
            retry_at: Timestamp(NOW.0 + 1_000),
        },
        Event::ModelCallRetried {
            turn,
            step: 4,
            attempt: 2,
        },
        Event::ModelReplied {
            turn,
            step: 4,
            wire: "anthropic".into(),
            model: "claude-sonnet-5-5".into(),
            parts: reply_parts(),
            calls: calls.collect(),
            finish: Finish::ToolCalls,
            usage: usage(),
        },
        Event::AnswerRefused {
            turn,
            step: 4,
            detail: "at /n: it is no integer".into(),
        },
        Event::CompactionStarted {
            number: 1,
            through: Seq(30),
        },
        Event::CompactionRetried {
            number: 1,
            attempt: 2,
        },
    ];
    events.extend([None, Some(NOW)].map(|retry_at| Event::CompactionFailed {
        number: 1,
        attempt: 1,
        code: "overloaded".into(),
        message: "try again".into(),
        retry_at,
    }));
    let summaries = [Stored::Inline("They talked.".into()), Stored::Blob(blob())];
    events.extend(summaries.map(|summary| Event::TranscriptCompacted {
        number: 1,
        through: Seq(30),
        summary,
        usage: usage(),
    }));
    events
}
