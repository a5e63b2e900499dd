//! Calls of the open step, and answers that come after it.

use std::sync::Arc;

use crate::call::{AskedQuestion, Call, CallState, Question};
use crate::content::{CallOutput, Finish, Stored, ToolOutput};
use crate::event::{Event, Settlement};
use crate::id::{CallId, Timestamp};
use crate::input::{Place, Policy, ReplayRule};
use crate::limits::{APPROVALS_KEPT_MAX, DETAIL_BYTES_MAX, IN_DOUBT_KEPT_MAX};
use crate::session::{Session, TurnPhase};
use crate::texts;
use crate::transcript::{CallResult, ItemBody};

pub(super) fn apply(session: &mut Session, event: &Event) {
    match event {
        Event::ApprovalRequested {
            approval,
            expires_at,
            ..
        } => {
            let state = CallState::AwaitingApproval {
                approval: *approval,
                expires_at: *expires_at,
            };
            to(session, approval.0, state);
        }
        Event::ApprovalDecided { .. } => approval_decided(session, event),
        Event::CallStarted {
            call,
            attempt,
            deadline,
        } => started(session, *call, *attempt, *deadline),
        Event::JobQueued { call, attempt } => {
            let deadline = deadline(session, *call).unwrap_or(session.at);
            to(
                session,
                *call,
                CallState::Queued {
                    attempt: *attempt,
                    deadline,
                },
            );
        }
        Event::CallRuleTightened { call, rule } => {
            with(session, *call, |call| tightened(call, *rule));
        }
        Event::CallRetryScheduled {
            call,
            attempt,
            may_have_acted,
            retry_at,
            ..
        } => {
            retry_scheduled(session, *call, *attempt, *retry_at);
            with(session, *call, |call| {
                call.may_have_acted |= *may_have_acted
            });
        }
        Event::InputRequested {
            call,
            attempt,
            question,
        } => asked(session, *call, *attempt, question),
        Event::InputGiven { call, answer } => answered(session, *call, answer),
        Event::CheckRequested { call, attempt } => {
            to(session, *call, CallState::Checking { attempt: *attempt });
        }
        Event::CallDoubted { call } => {
            let attempt = session.call(*call).and_then(|call| call.attempt());
            let attempt = attempt.unwrap_or_default();
            to(session, *call, CallState::InDoubt { attempt });
        }
        Event::CallSettled {
            call,
            settlement,
            output,
        } => {
            settled(session, *call, *settlement, output);
        }
        Event::CallResolved { call, output } => resolved(session, *call, output),
        _ => {}
    }
}

/// When the outcome of the running attempt must be there.
fn deadline(session: &Session, id: CallId) -> Option<Timestamp> {
    match session.call(id)?.state {
        CallState::Started { deadline, .. }
        | CallState::Queued { deadline, .. }
        | CallState::Backoff { deadline, .. } => Some(deadline),
        CallState::Proposed
        | CallState::AwaitingApproval { .. }
        | CallState::AwaitingSlot
        | CallState::AwaitingClient
        | CallState::AwaitingInput
        | CallState::Checking { .. }
        | CallState::InDoubt { .. }
        | CallState::Settled { .. } => None,
    }
}

fn started(session: &mut Session, id: CallId, attempt: u32, deadline: Timestamp) {
    with(session, id, |call| match call.state {
        // The attempt before died with its owner.
        CallState::Started { .. } => call.may_have_acted = true,
        // What became of the attempt before, nobody knows.
        CallState::InDoubt { .. } => call.may_have_acted = true,
        // Its check said that it did nothing, and never will.
        CallState::Checking { .. } => call.may_have_acted = false,
        CallState::Proposed
        | CallState::AwaitingApproval { .. }
        | CallState::AwaitingSlot
        | CallState::AwaitingClient
        | CallState::AwaitingInput
        | CallState::Queued { .. }
        | CallState::Backoff { .. }
        | CallState::Settled { .. } => {}
    });
    to(session, id, CallState::Started { attempt, deadline });
}

fn asked(session: &mut Session, id: CallId, attempt: u32, question: &Question) {
    with(session, id, |call| {
        call.question = Some(Box::new(AskedQuestion {
            attempt,
            question: question.clone(),
            answer: None,
        }));
    });
    to(session, id, CallState::AwaitingInput);
}

fn answered(session: &mut Session, id: CallId, answer: &Stored<ToolOutput>) {
    with(session, id, |call| {
        // The place of the attempt that asked was given back.
        call.triage.slot = false;
        if let Some(question) = &mut call.question {
            question.answer = Some(answer.clone());
        }
    });
    to(session, id, CallState::AwaitingSlot);
}

fn tightened(call: &mut Call, rule: ReplayRule) {
    // Its job went out under a rule by which workers claim nothing.
    let unclaimed = call.triage.place == Place::Remote && call.has_started();
    call.may_have_acted |= unclaimed && rule > call.triage.rule;
    call.triage.rule = call.triage.rule.max(rule);
}

fn retry_scheduled(session: &mut Session, id: CallId, attempt: u32, retry_at: Timestamp) {
    let deadline = deadline(session, id).unwrap_or(retry_at);
    to(
        session,
        id,
        CallState::Backoff {
            attempt,
            retry_at,
            deadline,
        },
    );
}

fn with(session: &mut Session, id: CallId, change: impl FnOnce(&mut Call)) {
    let Some(turn) = session.turn.as_mut() else {
        return;
    };
    let Some(position) = turn.calls.iter().position(|call| call.id == id) else {
        return;
    };
    if let Some(call) = turn.calls.get_mut(position) {
        change(Arc::make_mut(call));
    }
}

fn to(session: &mut Session, id: CallId, state: CallState) {
    let at = session.at;
    with(session, id, |call| {
        call.state = state;
        call.since = at;
    });
}

fn remember_approval(session: &mut Session, call: CallId, answer: Option<bool>) {
    session.approvals.insert(call, answer);
    while session.approvals.len() > APPROVALS_KEPT_MAX {
        session.approvals = session.approvals.without_min().1;
    }
}

fn approval_decided(session: &mut Session, event: &Event) {
    let Event::ApprovalDecided {
        approval,
        approved,
        reason,
        triage,
    } = event
    else {
        return;
    };
    remember_approval(session, approval.0, Some(*approved));
    let at = session.at;
    with(session, approval.0, |call| {
        call.approval_reason.clone_from(reason);
        if let Some(triage) = triage {
            call.triage = triage.clone();
        }
        call.since = at;
        call.state = match (approved, call.triage.place) {
            (true, Place::Client) => CallState::AwaitingClient,
            (true, Place::Local | Place::Remote) => CallState::AwaitingSlot,
            (false, _) => CallState::Proposed,
        };
    });
}

fn settled(session: &mut Session, id: CallId, settlement: Settlement, output: &CallOutput) {
    let Some(call) = session.call(id).cloned() else {
        return;
    };
    let may_be_resolved = match settlement {
        Settlement::InDoubt | Settlement::Unknown => true,
        Settlement::Cancelled => call.has_started(),
        Settlement::Done
        | Settlement::Refused
        | Settlement::Denied
        | Settlement::Expired
        | Settlement::Superseded
        | Settlement::Unreachable
        | Settlement::ToolGone => false,
    };
    if may_be_resolved {
        session.in_doubt.insert(id, call.tool);
        while session.in_doubt.len() > IN_DOUBT_KEPT_MAX {
            session.in_doubt = session.in_doubt.without_min().1;
        }
    }
    if matches!(call.state, CallState::AwaitingApproval { .. }) {
        remember_approval(session, id, None);
    }
    to(
        session,
        id,
        CallState::Settled {
            settlement,
            output: output.clone(),
        },
    );
    close_step(session);
}

/// Once all calls of the step are settled, their results stand in the transcript, as asked.
fn close_step(session: &mut Session) {
    let Some(turn) = session.turn.as_mut() else {
        return;
    };
    turn.crashes_in_row = 0;
    if !turn.calls.iter().all(|call| call.is_settled()) {
        return;
    }
    let mut results: Vec<CallResult> = std::mem::take(&mut turn.calls)
        .into_iter()
        .filter_map(|call| result(Arc::unwrap_or_clone(call)))
        .collect();
    // They are kept for long.
    results.shrink_to_fit();
    let last = results
        .iter()
        .any(|result| ends_turn(&session.policy, result));
    turn.phase = if last {
        TurnPhase::Answered {
            finish: Finish::ToolCalls,
        }
    } else {
        TurnPhase::Ready
    };
    let turn = turn.id;
    session
        .transcript
        .push(session.seq, ItemBody::Results { turn, results });
}

/// Whether a turn has what it was for once this call has its result.
fn ends_turn(policy: &Policy, result: &CallResult) -> bool {
    let stops = policy.stop_after_tools.contains(&result.tool);
    let failed = match &result.output.output {
        Stored::Inline(output) => output.is_error(),
        // Errors are told in the log itself: only their details may be large.
        Stored::Blob(_) => result
            .output
            .model_view
            .as_deref()
            .is_some_and(ToolOutput::is_error),
    };
    stops && result.settlement == Settlement::Done && !failed
}

fn result(call: Call) -> Option<CallResult> {
    let CallState::Settled { settlement, output } = call.state else {
        return None;
    };
    Some(CallResult {
        id: call.id,
        provider_call_id: call.provider_call_id,
        tool: call.tool,
        settlement,
        output,
    })
}

fn resolved(session: &mut Session, id: CallId, output: &CallOutput) {
    let Some(tool) = session.in_doubt.remove(&id) else {
        return;
    };
    let shown = match (&output.model_view, &output.output) {
        (Some(view), _) => describe(view),
        (None, Stored::Inline(output)) => describe(output),
        (None, Stored::Blob(blob)) => format!("a result of {} bytes", blob.size_bytes),
    };
    session
        .transcript
        .notes
        .push_back(texts::late_answer(&tool, id, &shown));
}

fn describe(output: &ToolOutput) -> String {
    let text = match output {
        ToolOutput::Text { text } => text.clone(),
        ToolOutput::ErrorText { text } => format!("error: {text}"),
        ToolOutput::Json { value } => value.to_string(),
        ToolOutput::ErrorJson { value } => format!("error: {value}"),
        ToolOutput::Content { parts } => format!("{} content parts", parts.len()),
        ToolOutput::ExecutionDenied { reason } => {
            format!("denied: {}", reason.as_deref().unwrap_or("no reason given"))
        }
    };
    texts::cut(&text, 4 * DETAIL_BYTES_MAX)
}
