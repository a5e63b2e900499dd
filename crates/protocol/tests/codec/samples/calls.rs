//! Events of calls and of the outbox.

use steadfast_core::call::Question;
use steadfast_core::command::Digest;
use steadfast_core::content::{Stored, ToolOutput};
use steadfast_core::event::{Event, Notice, Settlement};
use steadfast_core::id::{ApprovalId, Timestamp};
use steadfast_core::input::ReplayRule;
use steadfast_core::offered::OfferedTools;

use super::content::{outputs, triages};
use super::{NOW, call, turn};

pub(crate) fn settlements() -> [Settlement; 10] {
    [
        Settlement::Done,
        Settlement::Refused,
        Settlement::Denied,
        Settlement::Expired,
        Settlement::Superseded,
        Settlement::Cancelled,
        Settlement::Unreachable,
        Settlement::Unknown,
        Settlement::InDoubt,
        Settlement::ToolGone,
    ]
}

pub(super) fn calls() -> Vec<Event> {
    let call = call(2);
    let mut events = vec![
        Event::CallStarted {
            call,
            attempt: 1,
            deadline: Timestamp(NOW.0 + 600_000),
        },
        Event::JobQueued { call, attempt: 1 },
        Event::CallRetryScheduled {
            call,
            attempt: 1,
            detail: "connection refused".into(),
            may_have_acted: true,
            retry_at: NOW,
        },
        Event::InputRequested {
            call,
            attempt: 1,
            question: Question {
                requests: serde_json::json!({ "size": { "message": "Which size?" } }),
                state: Some("opaque".into()),
                problem: None,
            },
        },
        Event::InputGiven {
            call,
            answer: Stored::Inline(ToolOutput::Json {
                value: serde_json::json!({ "action": "accept" }),
            }),
        },
        Event::ToolsOffered {
            turn: turn(12),
            offered: OfferedTools {
                tools: [("docs__search".to_owned(), Digest(7))].into(),
                missing: vec!["files".to_owned()],
            },
            note: Some("Your tools changed.".into()),
        },
        Event::CheckRequested { call, attempt: 1 },
        Event::CallDoubted { call },
    ];
    let rules = [ReplayRule::Safe, ReplayRule::Keyed, ReplayRule::Never];
    events.extend(rules.map(|rule| Event::CallRuleTightened { call, rule }));
    events.extend(notices());
    events.extend(approvals());
    let endings = settlements().into_iter().cycle().zip(outputs());
    let settled = |(settlement, output)| Event::CallSettled {
        call,
        settlement,
        output,
    };
    events.extend(endings.map(settled));
    let output = outputs().remove(0);
    events.extend(settlements().map(|settlement| settled((settlement, output.clone()))));
    let resolved = |output| Event::CallResolved { call, output };
    events.extend(outputs().into_iter().map(resolved));
    events
}

fn notices() -> Vec<Event> {
    let call = call(2);
    vec![
        Event::NoticePosted {
            number: 5,
            notice: Notice::CancelJob {
                call,
                attempt: 1,
                tool: String::new(),
                under_claim: false,
                agent: None,
            },
        },
        Event::NoticeDelivered { number: 5 },
        Event::NoticeDropped {
            number: 6,
            detail: "its receiver answers 500".to_owned(),
        },
    ]
}

fn approvals() -> Vec<Event> {
    let approval = ApprovalId(call(2));
    let mut events = vec![
        Event::ApprovalDecided {
            approval,
            approved: false,
            reason: Some("too expensive".into()),
            triage: None,
        },
        Event::ApprovalDecided {
            approval,
            approved: true,
            reason: None,
            triage: triages().pop(),
        },
    ];
    events.extend(
        [None, Some(NOW)].map(|expires_at| Event::ApprovalRequested {
            approval,
            input_digest: Digest::of(b"an input"),
            expires_at,
        }),
    );
    events
}
