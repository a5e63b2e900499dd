//! Shapes that came after the golden file of their event was written, each in a file of its own.

use super::*;

pub(super) fn added() -> Vec<(&'static str, Event)> {
    let mut added = of_turns();
    added.extend(of_policies());
    added.extend(of_agents());
    added.extend(of_reports());
    added.extend(of_calls());
    added
}

fn of_turns() -> Vec<(&'static str, Event)> {
    let finish_paused = Event::TurnEnded {
        turn: turn(12),
        outcome: TurnOutcome::Completed {
            finish: Finish::Paused,
        },
    };
    let turn_traced = Event::TurnQueued {
        message: command("msg_1"),
        content: Vec::new(),
        options: MessageOptions {
            traceparent: Some(Traceparent {
                trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
                span: 0xb7ad_6b71_6920_3331,
                flags: 1,
            }),
            ..MessageOptions::default()
        },
    };
    let steered = |tool_choice, output_schema| Event::TurnQueued {
        message: command("msg_1"),
        content: Vec::new(),
        options: MessageOptions {
            tool_choice: Some(tool_choice),
            output_schema,
            ..MessageOptions::default()
        },
    };
    let schema = json!({"type": "object"});
    vec![
        ("finish_paused", finish_paused),
        ("turn_traced", turn_traced),
        (
            "turn_with_schema",
            steered(ToolChoice::Required, Some(schema)),
        ),
        (
            "turn_with_tool",
            steered(ToolChoice::Tool("read".to_owned()), None),
        ),
        ("turn_without_tools", steered(ToolChoice::None, None)),
    ]
}

fn of_policies() -> Vec<(&'static str, Event)> {
    let stops_after_tools = Event::Activated {
        node: node("n1-01jabc"),
        epoch: Epoch(3),
        policy: Policy {
            stop_after_tools: vec!["submit".to_owned()],
            ..Policy::default()
        },
    };
    let reports = Event::Activated {
        node: node("n1-01jabc"),
        epoch: Epoch(3),
        policy: Policy {
            reports: vec![ReportKind::Waiting, ReportKind::Ended],
            ..Policy::default()
        },
    };
    vec![
        ("stops_after_tools", stops_after_tools),
        ("reports", reports),
    ]
}

fn of_agents() -> Vec<(&'static str, Event)> {
    let parent = ParentCall {
        session: SessionId::new("above").unwrap(),
        call: call(2),
        depth: 1,
    };
    let turn_of_a_child = Event::TurnQueued {
        message: command("call-3-17-2"),
        content: Vec::new(),
        options: MessageOptions {
            parent: Some(Box::new(parent.clone())),
            share: Some(Box::new(TurnShare {
                steps_max: 7,
                tokens_max: Some(1_000),
            })),
            ..MessageOptions::default()
        },
    };
    let notice_to_a_parent = Event::NoticePosted {
        number: 6,
        notice: Notice::AnswerCall {
            parent,
            turn: turn(12),
            outcome: TurnOutcome::Cancelled,
            last_item: Some(Seq(20)),
        },
    };
    let notice_to_a_child = Event::NoticePosted {
        number: 6,
        notice: Notice::CancelJob {
            call: call(2),
            attempt: 1,
            tool: "research".to_owned(),
            under_claim: false,
            agent: Some(agent()),
        },
    };
    vec![
        ("turn_of_a_child", turn_of_a_child),
        ("notice_to_a_parent", notice_to_a_parent),
        ("notice_to_a_child", notice_to_a_child),
    ]
}

fn of_reports() -> Vec<(&'static str, Event)> {
    let report = |report| Event::NoticePosted {
        number: 6,
        notice: Notice::ReportTurn {
            turn: turn(12),
            message: command("msg_1"),
            at: NOW,
            report,
        },
    };
    let waiting = TurnReport::Waiting {
        count: 1,
        calls: vec![WaitingCall {
            call: call(2),
            tool: "refund".to_owned(),
            kind: WaitKind::Approval,
        }],
    };
    let ended = TurnReport::Ended {
        outcome: TurnOutcome::Cancelled,
    };
    vec![
        ("notice_of_a_wait", report(waiting)),
        ("notice_of_an_end", report(ended)),
    ]
}

fn of_calls() -> Vec<(&'static str, Event)> {
    let call_of_an_agent = Event::ApprovalDecided {
        approval: ApprovalId(call(2)),
        approved: true,
        reason: None,
        triage: content::triages().pop().map(|triage| CallTriage {
            agent: Some(agent()),
            ..triage
        }),
    };
    let call_blocked = Event::CommandSettled {
        command: command("retry_1"),
        digest: Digest(1 << 63),
        verdict: Verdict::Rejected {
            reason: Rejection::CallBlocked,
        },
    };
    let notice_under_claim = Event::NoticePosted {
        number: 5,
        notice: Notice::CancelJob {
            call: call(2),
            attempt: 1,
            tool: "refund".to_owned(),
            under_claim: true,
            agent: None,
        },
    };
    vec![
        ("call_of_an_agent", call_of_an_agent),
        ("call_blocked", call_blocked),
        ("notice_under_claim", notice_under_claim),
    ]
}
