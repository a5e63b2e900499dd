//! Letters and live frames.

use std::collections::BTreeMap;

use serde_json::json;
use steadfast_core::command::{CallAnswer, Command, CommandBody, Settler};
use steadfast_core::content::ToolOutput;
use steadfast_core::id::{ApprovalId, Epoch};
use steadfast_protocol::live::{Delta, LiveFrame};
use steadfast_protocol::mail::Mail;

use super::content::{content, outputs, triages};
use super::turns::{new_sessions, options, origin};
use super::{NOW, call, command, node, tag, turn};

fn bodies() -> Vec<CommandBody> {
    let new = new_sessions().remove(0);
    let mut bodies = vec![
        CommandBody::Create { new: new.clone() },
        CommandBody::Fork {
            new: new.clone(),
            origin: origin(),
        },
        CommandBody::Withdraw {
            message: command("msg_2"),
        },
        CommandBody::Cancel { turn: None },
        CommandBody::Cancel {
            turn: Some(turn(12)),
        },
        CommandBody::Compact,
        CommandBody::DecideApproval {
            approval: ApprovalId(call(2)),
            approved: true,
            reason: Some("go ahead".into()),
            triage: triages().pop(),
        },
        CommandBody::DecideApproval {
            approval: ApprovalId(call(2)),
            approved: false,
            reason: None,
            triage: None,
        },
        CommandBody::SkipCall { call: call(1) },
        CommandBody::RetryCall { call: call(1) },
        CommandBody::Delete,
    ];
    bodies.extend(options().into_iter().map(|options| CommandBody::Submit {
        content: content(),
        options,
        new: Some(new.clone()),
    }));
    bodies.push(CommandBody::Submit {
        content: Vec::new(),
        options: options().remove(0),
        new: None,
    });
    for (by, output) in [Settler::Client, Settler::Operator]
        .into_iter()
        .zip(outputs())
    {
        bodies.push(CommandBody::SettleCall {
            call: call(2),
            output,
            by,
        });
    }
    bodies.push(CommandBody::AnswerCalls {
        answers: vec![
            CallAnswer::Approval {
                approval: ApprovalId(call(2)),
                approved: true,
                reason: Some("go ahead".into()),
                triage: None,
            },
            CallAnswer::Result {
                call: call(3),
                output: ToolOutput::text("the client's").into(),
            },
        ],
    });
    bodies
}

/// Letters by the name of their golden file: one for each shape.
pub(crate) fn letters() -> BTreeMap<String, Mail> {
    let mut letters = BTreeMap::new();
    let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
    let mut insert = |name: String, mail| {
        let shape = shapes.entry(name.clone()).or_default();
        *shape += 1;
        letters.insert(format!("letter.{name}.{shape}"), mail);
    };
    for body in bodies() {
        let name = format!("command.{}", tag(&body));
        let command = Command {
            id: command("cmd_7"),
            body,
        };
        insert(name, Mail::Command { command, at: NOW });
    }
    for dead_owner in [None, Some(node("n1-01jabc"))] {
        let mail = Mail::WakeUp { dead_owner };
        insert(tag(&mail), mail);
    }
    letters
}

/// Live frames by the name of their golden file: one for each kind.
pub(crate) fn frames() -> BTreeMap<String, LiveFrame> {
    let deltas = [
        Delta::Text {
            part: 0,
            text: "Hel".into(),
        },
        Delta::Reasoning {
            part: 1,
            text: "The user".into(),
        },
        Delta::ToolInput {
            index: 1,
            tool: "get_weather".into(),
            text: "{\"ci".into(),
        },
        Delta::ToolProgress {
            call: call(2),
            output: json!({"done": 0.5}),
        },
        Delta::Withdrawn,
    ];
    let frame = |delta: Delta| {
        let name = format!("frame.{}", tag(&delta));
        let frame = LiveFrame {
            epoch: Epoch(3),
            turn: turn(12),
            step: 4,
            attempt: 1,
            n: 300,
            delta,
        };
        (name, frame)
    };
    deltas.into_iter().map(frame).collect()
}
