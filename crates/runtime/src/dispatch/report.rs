//! Tells the webhook what became of a turn: until it has it, over every crash, or it is too late.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::event::{TurnOutcome, TurnReport, WaitKind};
use steadfast_core::id::{ApprovalId, MessageId, Timestamp, TurnId};
use steadfast_core::input::Input;

use super::task::Task;
use crate::host::backoff;
use crate::webhook::Webhook;

const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(120);

/// What is told.
pub(super) struct Report {
    pub(super) number: u64,
    pub(super) turn: TurnId,
    pub(super) message: MessageId,
    pub(super) at: Timestamp,
    pub(super) report: TurnReport,
}

pub(super) async fn deliver(task: &Task, report: Report) -> Input {
    let notice = report.number;
    let key = &task.session.key;
    let Some(webhook) = &task.host.webhook else {
        let detail = "no webhook is configured".to_owned();
        return Input::NoticeDropped { notice, detail };
    };
    let id = format!("{key}/{}-{notice}", report.turn);
    let body = body(task, &report).to_string();
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match webhook.send(&id, &body, task.now()).await {
            Ok(()) => {
                return Input::NoticeDelivered {
                    notice,
                    withdrawn: false,
                };
            }
            Err(error) => error,
        };
        let wait = backoff(WAIT_MIN, WAIT_MAX, tries);
        if error.is_final() || is_too_late(task, webhook, report.at, wait) {
            webhook.given_up();
            tracing::error!(session = %key, id, tries, %error, "webhook event given up");
            let detail = error.to_string();
            return Input::NoticeDropped { notice, detail };
        }
        tracing::warn!(session = %key, id, tries, %error, "webhook event not taken, again");
        tokio::time::sleep(wait).await;
    }
}

/// The age of the report counts, not the tries: an owner that begins anew does not know of those.
fn is_too_late(task: &Task, webhook: &Webhook, at: Timestamp, wait: Duration) -> bool {
    let age = Duration::from_millis(task.now().0.saturating_sub(at.0));
    age.saturating_add(wait) >= webhook.give_up_after()
}

/// The same bytes at each try: what is told is what was recorded.
fn body(task: &Task, report: &Report) -> Value {
    let key = &task.session.key;
    let agent = task.session.profile().map(|profile| &profile.agent);
    let mut data = json!({
        "tenant": key.tenant,
        "session": key.session,
        "agent": agent,
        "turn_id": report.turn,
        "message_id": report.message,
    });
    let kind = match &report.report {
        TurnReport::Waiting { count, calls } => {
            let calls = calls.iter().map(|call| {
                let mut told = json!({
                    "call_id": call.call.to_string(),
                    "tool": call.tool,
                    "for": call.kind,
                });
                if call.kind == WaitKind::Approval {
                    told["approval_id"] = ApprovalId(call.call).to_string().into();
                }
                told
            });
            data["waiting"] = calls.collect();
            data["waiting_count"] = (*count).into();
            "turn.waiting"
        }
        TurnReport::Ended { outcome } => match outcome {
            TurnOutcome::Completed { .. } => "turn.completed",
            TurnOutcome::Failed { code, message } => {
                data["error"] = json!({ "code": code, "message": message });
                "turn.failed"
            }
            TurnOutcome::Cancelled => "turn.cancelled",
            TurnOutcome::Superseded => "turn.superseded",
            TurnOutcome::Rejected => "turn.rejected",
        },
    };
    json!({ "type": kind, "at": report.at, "data": data })
}
