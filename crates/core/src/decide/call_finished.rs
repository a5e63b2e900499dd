//! A tool call ended, or its answer came late.

use super::{Draft, calls};
use crate::call::{Call, CallState};
use crate::content::CallOutput;
use crate::event::{Event, Settlement};
use crate::id::CallId;
use crate::input::{CallOutcome, CallTriage, Place, ReplayRule};
use crate::limits::DETAIL_BYTES_MAX;
use crate::replay::backoff_ms;
use crate::texts;

/// First wait before a call is repeated, in milliseconds.
const CALL_BACKOFF_MS: u64 = 500;

pub(super) fn decide(draft: &mut Draft, id: CallId, attempt: u32, outcome: &CallOutcome) {
    match draft.session.call(id).cloned() {
        Some(call) if !call.is_settled() => open(draft, &call, attempt, outcome),
        Some(_) | None => late(draft, id, outcome),
    }
}

/// The call was settled without an outcome, and here it is: recorded once, changes nothing sent.
fn late(draft: &mut Draft, call: CallId, outcome: &CallOutcome) {
    if let CallOutcome::Done(output) = outcome
        && draft.session.in_doubt.contains_key(&call)
    {
        draft.emit(Event::CallResolved {
            call,
            output: output.clone(),
        });
    }
}

fn open(draft: &mut Draft, call: &Call, attempt: u32, outcome: &CallOutcome) {
    match outcome {
        // Of an attempt that was said never to happen only the tool's refusal can come.
        CallOutcome::Done(_) if is_fenced_off(call, attempt) => {}
        // All attempts have one key, so the answer to any of them is the call's answer.
        CallOutcome::Done(output) if call.has_started() => done(draft, call.id, output),
        CallOutcome::Done(_) => {}
        CallOutcome::Retry {
            detail,
            retry_after_ms,
        } => {
            if runs(call, attempt) {
                did_nothing(draft, call, attempt, detail, *retry_after_ms);
            }
        }
        CallOutcome::Asks(question) => {
            if runs(call, attempt) {
                draft.emit(Event::InputRequested {
                    call: call.id,
                    attempt,
                    question: question.clone(),
                });
            }
        }
        CallOutcome::Unknown { detail } => {
            if runs(call, attempt) {
                unknown(draft, call, attempt, detail);
            }
        }
    }
}

/// Whether the tool has said, when it was asked, that this attempt did nothing and never will.
fn is_fenced_off(call: &Call, attempt: u32) -> bool {
    call.triage.rule == ReplayRule::Never
        && !call.may_have_acted
        && call.attempt().is_some_and(|current| attempt < current)
}

fn runs(call: &Call, attempt: u32) -> bool {
    call.occupies()
        && !matches!(call.state, CallState::Checking { .. })
        && call.attempt() == Some(attempt)
}

fn done(draft: &mut Draft, call: CallId, output: &CallOutput) {
    let (settlement, output) = (Settlement::Done, output.clone());
    draft.emit(Event::CallSettled {
        call,
        settlement,
        output,
    });
}

fn did_nothing(
    draft: &mut Draft,
    call: &Call,
    attempt: u32,
    detail: &str,
    retry_after_ms: Option<u64>,
) {
    let again = Again {
        may_have_acted: may_come_again(call),
        retry_after_ms,
    };
    if retry(draft, call, attempt, detail, again) {
        return;
    }
    let detail = texts::cut(detail, DETAIL_BYTES_MAX);
    match (
        call.may_have_acted || may_come_again(call),
        call.triage.rule,
    ) {
        (false, _) => calls::settle(draft, call.id, Settlement::Unreachable, &detail),
        // This attempt did nothing, but an earlier one may have.
        (true, ReplayRule::Never) => calls::doubt(draft, call.id),
        (true, ReplayRule::Safe | ReplayRule::Keyed) => {
            calls::settle(draft, call.id, Settlement::Unknown, &detail);
        }
    }
}

/// Whether the queue may give an attempt that was answered to a worker once more: it delivers a job
/// at least once, and only a `never` job is claimed before it runs.
fn may_come_again(call: &Call) -> bool {
    let CallTriage {
        place, rule, agent, ..
    } = &call.triage;
    *place == Place::Remote && *rule != ReplayRule::Never && agent.is_none()
}

fn unknown(draft: &mut Draft, call: &Call, attempt: u32, detail: &str) {
    match call.triage.rule {
        ReplayRule::Never => {
            calls::ask_or_doubt(draft, call.id, attempt, call.triage.has_check);
        }
        ReplayRule::Safe | ReplayRule::Keyed => {
            let again = Again {
                may_have_acted: true,
                retry_after_ms: None,
            };
            if !retry(draft, call, attempt, detail, again) {
                let detail = texts::cut(detail, DETAIL_BYTES_MAX);
                calls::settle(draft, call.id, Settlement::Unknown, &detail);
            }
        }
    }
}

/// How another attempt comes about.
struct Again {
    may_have_acted: bool,
    retry_after_ms: Option<u64>,
}

/// Schedules another attempt of a call that may be repeated, within its attempts and deadline.
fn retry(draft: &mut Draft, call: &Call, attempt: u32, detail: &str, again: Again) -> bool {
    let deadline = match call.state {
        CallState::Started { deadline, .. } | CallState::Queued { deadline, .. } => deadline,
        _ => return false,
    };
    let own = backoff_ms(
        &draft.session.key,
        &(call.id, attempt),
        CALL_BACKOFF_MS,
        attempt,
    );
    let retry_at = draft
        .now
        .plus_ms(own.max(again.retry_after_ms.unwrap_or(0)));
    let repeatable = matches!(call.triage.rule, ReplayRule::Safe | ReplayRule::Keyed);
    if !repeatable || attempt >= call.triage.attempts_max || retry_at >= deadline {
        return false;
    }
    let detail = texts::cut(detail, DETAIL_BYTES_MAX);
    draft.emit(Event::CallRetryScheduled {
        call: call.id,
        attempt,
        detail,
        may_have_acted: again.may_have_acted,
        retry_at,
    });
    true
}
