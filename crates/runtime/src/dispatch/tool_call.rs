//! Runs one attempt of a tool call: within its slot, until its deadline, and never twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steadfast_core::call::{Call, CallState, Question};
use steadfast_core::content::{CallInput, ToolOutput};
use steadfast_core::id::{CallId, Timestamp};
use steadfast_core::input::{CallOutcome, Input};
use steadfast_core::limits::INLINE_BYTES_MAX;
use steadfast_protocol::live::Delta;
use steadfast_tools::catalog::{SourceState, Tool};
use steadfast_tools::worker::{Answered, Job, ToolWorker};
use tracing::Span;

use super::spans;
use super::task::{Ended, Task};
use crate::load::{self, ValueError};
use crate::pools::{Attempt, not_run};
use crate::trace;
use crate::triage::Slot;

/// How long a call waits for the source of its tool.
const REACH_MAX: Duration = Duration::from_secs(20);

pub(super) async fn run(task: Task, call: CallId, attempt: u32, slot: Option<Slot>) -> Ended {
    let outcome = match prepare(&task, call, attempt, slot).await {
        Ok(Some(ready)) => attempt_once(&task, ready).await,
        Ok(None) => return Ended::silently(),
        Err(not_run) => not_run,
    };
    spans::ran(&Span::current(), &outcome);
    let outcome = keep(&task, outcome).await;
    Ended::with(Input::CallFinished {
        call,
        attempt,
        outcome,
    })
}

/// All that an attempt needs.
struct Ready {
    worker: Arc<dyn ToolWorker>,
    job: Job,
    remaining: Duration,
    slot: Slot,
}

/// `Ok(None)`: nobody wants it any more. `Err`: the tool certainly was not run.
async fn prepare(
    task: &Task,
    id: CallId,
    attempt: u32,
    slot: Option<Slot>,
) -> Result<Option<Ready>, CallOutcome> {
    let Some(call) = task.call(id) else {
        return Ok(None);
    };
    let Some(tool) = reached(task, call).await? else {
        return Ok(None);
    };
    let worker = worker(&tool)?;
    let deadline = match call.state {
        CallState::Started { deadline, .. } => deadline,
        _ => task.now().plus_ms(call.triage.deadline_ms),
    };
    let slot = match slot {
        Some(slot) => slot,
        // A call that runs again after a take-over was started without one.
        None => tokio::select! { biased;
            () = task.cancelled.cancelled() => return Ok(None),
            slot = task.host.pools.reserve(&tool, &task.session.key) => {
                slot.ok_or_else(|| not_run("the tool has no pool on this node"))?
            }
            () = tokio::time::sleep(task.until(deadline)) => {
                return Err(not_run("no slot of its pool was free before its deadline"));
            }
        },
    };
    let job = job(task, call, attempt, deadline).await?;
    let remaining = task.until(deadline);
    Ok(Some(Ready {
        worker,
        job,
        remaining,
        slot,
    }))
}

/// The tool of a call, if there still is one.
pub(super) fn tool(task: &Task, call: &Call) -> Result<Arc<Tool>, CallOutcome> {
    let agent = task.agent();
    let agent = agent.ok_or_else(|| not_run("the session's agent is not configured here"))?;
    if let Some(tool) = agent.catalog.get(&call.tool) {
        return Ok(tool);
    }
    let Some(source) = agent.catalog.source_of(&call.tool) else {
        return Err(not_run("the tool is no longer configured"));
    };
    let state = source.stock().state.clone();
    let words = state.of(source.name());
    Err(match state {
        SourceState::Up => {
            let words = format!("nothing was done, there is no such tool any more: {words}");
            CallOutcome::Done(ToolOutput::error(words).into())
        }
        SourceState::Starting | SourceState::Down { .. } => not_run(&words),
    })
}

/// The same, after a wait for the tool's source if that is not reached. `Ok(None)`: nobody wants the
/// call any more.
async fn reached(task: &Task, call: &Call) -> Result<Option<Arc<Tool>>, CallOutcome> {
    let source = task.agent().and_then(|agent| {
        let is_there = agent.catalog.get(&call.tool).is_some();
        let source = agent.catalog.source_of(&call.tool);
        source.filter(|_| !is_there)
    });
    if let Some(source) = source {
        tokio::select! { biased;
            () = task.cancelled.cancelled() => return Ok(None),
            () = source.reached() => {}
            () = tokio::time::sleep(REACH_MAX) => {}
        }
    }
    tool(task, call).map(Some)
}

pub(super) fn worker(tool: &Tool) -> Result<Arc<dyn ToolWorker>, CallOutcome> {
    tool.worker
        .clone()
        .ok_or_else(|| not_run("this tool runs elsewhere, not on this node"))
}

/// What a tool is told of a call.
pub(super) async fn job(
    task: &Task,
    call: &Call,
    attempt: u32,
    deadline: Timestamp,
) -> Result<Job, CallOutcome> {
    let session = &task.session;
    let blobs = &*task.host.stores.blobs;
    let input = match load::value(blobs, &session.key, &call.input).await {
        Ok(CallInput::Json(input)) => input,
        Ok(CallInput::Malformed { error, .. }) => {
            return Err(not_run(&format!("the arguments are not JSON: {error}")));
        }
        Err(ValueError::Unavailable(detail) | ValueError::Damaged(detail)) => {
            return Err(not_run(&format!("the arguments cannot be read: {detail}")));
        }
    };
    let answered = answered(task, call).await?;
    let turn = session.turn.as_ref();
    Ok(Job {
        session: session.key.clone(),
        turn: turn.map(|turn| turn.id).unwrap_or_default(),
        call: call.id,
        attempt,
        epoch: session.epoch,
        tool: call.tool.clone(),
        input,
        deadline,
        remaining_ms: u64::try_from(task.until(deadline).as_millis()).unwrap_or(u64::MAX),
        answered,
        approval_reason: call.approval_reason.clone(),
        metadata: turn.map_or(Value::Null, |turn| turn.options.metadata.clone()),
        traceparent: trace::context_of(&Span::current())
            .or(turn.and_then(|turn| turn.options.traceparent))
            .map(|context| context.to_string()),
    })
}

/// What the tool asked before, with the answer.
async fn answered(task: &Task, call: &Call) -> Result<Option<Answered>, CallOutcome> {
    let Some(asked) = &call.question else {
        return Ok(None);
    };
    let Some(answer) = &asked.answer else {
        return Ok(None);
    };
    let blobs = &*task.host.stores.blobs;
    match load::value(blobs, &task.session.key, answer).await {
        Ok(answer) => Ok(Some(Answered {
            attempt: asked.attempt,
            question: asked.question.clone(),
            answer,
        })),
        Err(ValueError::Unavailable(detail) | ValueError::Damaged(detail)) => {
            Err(not_run(&format!("the answer cannot be read: {detail}")))
        }
    }
}

/// Runs the tool until its deadline, or until it is no longer wanted.
async fn attempt_once(task: &Task, ready: Ready) -> CallOutcome {
    let call = ready.job.call;
    let attempt = Attempt {
        worker: ready.worker,
        job: ready.job,
        slot: ready.slot,
        cancelled: task.cancelled.clone(),
        grace: task.host.options.cancel_grace,
    };
    let stop = async {
        tokio::select! { biased;
            () = task.cancelled.cancelled() => "it was cancelled and gave no outcome",
            () = tokio::time::sleep(ready.remaining) => "it gave no outcome before its deadline",
        }
    };
    let show = |output| show(task, call, output);
    task.host.pools.attempt(attempt, stop, show).await
}

fn show(task: &Task, call: CallId, output: Value) {
    if let Some(turn) = &task.session.turn {
        let delta = Delta::ToolProgress { call, output };
        task.feed
            .progress(task.session.epoch, turn.id, turn.step, delta);
    }
}

fn question_bytes(question: &Question) -> usize {
    let state = question.state.as_ref().map_or(0, String::len);
    question.requests.to_string().len() + state
}

/// Makes an outcome small enough for the log. One that cannot be kept is not known.
async fn keep(task: &Task, outcome: CallOutcome) -> CallOutcome {
    let mut output = match outcome {
        CallOutcome::Done(output) => output,
        CallOutcome::Asks(question) if question_bytes(&question) > INLINE_BYTES_MAX => {
            let words = format!(
                "the tool asks for something in more than {INLINE_BYTES_MAX} bytes, which is not kept"
            );
            return CallOutcome::Done(ToolOutput::error(words).into());
        }
        other => return other,
    };
    match task.spill().output(&mut output).await {
        Ok(()) => CallOutcome::Done(output),
        Err(error) => CallOutcome::Unknown {
            detail: format!("it ran, but its result could not be kept: {error}"),
        },
    }
}
