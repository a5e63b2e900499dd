//! From a call to its message, and from an answer to what the session must decide about.

use serde_json::Value;
use steadfast_core::content::CallOutput;
use steadfast_core::id::AgentName;
use steadfast_core::input::{CallOutcome, CheckAnswer, Input, ReplayRule};
use steadfast_protocol::tool::{self, Addresses, Answer, Kind, Outcome};
use steadfast_store::jobs::claim_key;

use crate::answer::output_of;
use crate::catalog::Tool;
use crate::worker::Job;

/// What the worker of a job is told.
pub fn job(
    job: Job,
    agent: AgentName,
    rule: ReplayRule,
    kind: Kind,
    addresses: Option<Addresses>,
) -> tool::Job {
    let claims = kind == Kind::Run && rule == ReplayRule::Never;
    tool::Job {
        version: tool::VERSION,
        kind,
        key: job.key(),
        fence: job.fence().to_string(),
        claim: claims.then(|| claim_key(&job.session, job.call, job.attempt)),
        tenant: job.session.tenant,
        session: job.session.session,
        agent,
        turn: job.turn,
        tool: job.tool,
        call: job.call,
        attempt: job.attempt,
        epoch: job.epoch,
        replay: rule,
        input: job.input,
        deadline_at_ms: job.deadline.0,
        approval_reason: job.approval_reason,
        metadata: job.metadata,
        traceparent: job.traceparent,
        addresses,
    }
}

/// What a session must decide about an answer. `tool` is the tool as configured now, if it is.
pub fn input(answer: Answer, tool: Option<&Tool>) -> Input {
    let Answer {
        kind,
        call,
        attempt,
        outcome,
        ..
    } = answer;
    match kind {
        Kind::Run => Input::CallFinished {
            call,
            attempt,
            outcome: run_outcome(outcome, tool),
        },
        Kind::Check => Input::CheckAnswered {
            call,
            attempt,
            answer: check_answer(outcome, tool),
        },
    }
}

fn run_outcome(outcome: Outcome, tool: Option<&Tool>) -> CallOutcome {
    match outcome {
        Outcome::Done {
            output,
            is_error,
            documents,
        } => CallOutcome::Done(finished(output, is_error, &documents, tool)),
        Outcome::Finished { output } => CallOutcome::Done(output),
        Outcome::Retry {
            detail,
            retry_after_ms,
        } => CallOutcome::Retry {
            detail,
            retry_after_ms,
        },
        Outcome::NotDone {} => CallOutcome::Unknown {
            detail: "the worker answered a run as if it were a check".into(),
        },
        Outcome::Unknown { detail } => CallOutcome::Unknown { detail },
    }
}

fn check_answer(outcome: Outcome, tool: Option<&Tool>) -> CheckAnswer {
    match outcome {
        Outcome::Done {
            output,
            is_error,
            documents,
        } => CheckAnswer::Done(finished(output, is_error, &documents, tool)),
        Outcome::Finished { output } => CheckAnswer::Done(output),
        Outcome::NotDone {} => CheckAnswer::NotDone,
        Outcome::Retry { .. } | Outcome::Unknown { .. } => CheckAnswer::Unknown,
    }
}

fn finished(output: Value, is_error: bool, documents: &[Value], tool: Option<&Tool>) -> CallOutput {
    let output = output_of(output, is_error, documents);
    match tool {
        Some(tool) => tool.finished(output),
        None => output,
    }
}
