//! Puts the job of a remote call into the tool queue: an idempotent put, tried until it is certain.

use bytes::Bytes;
use steadfast_core::call::{Call, CallState};
use steadfast_core::content::ToolOutput;
use steadfast_core::id::{CallId, Timestamp};
use steadfast_core::input::{CallOutcome, Input};
use steadfast_protocol::tool::{self, Kind};
use steadfast_store::error::WriteError;
use steadfast_store::jobs::{JOB_BYTES_MAX, Job, JobId, JobKind, JobName};
use steadfast_store::{ToolQueue, jobs};
use steadfast_tools::remote;

use super::child;
use super::task::{Ended, Task};
use super::tool_call;
use crate::pools::not_run;
use crate::remote::JobCounts;

pub(super) async fn run(task: Task, id: CallId, attempt: u32) -> Ended {
    let finished = |outcome| {
        Ended::with(Input::CallFinished {
            call: id,
            attempt,
            outcome,
        })
    };
    let Some(call) = task.call(id) else {
        return Ended::silently();
    };
    if let Some(agent) = call.triage.agent.clone() {
        return child::run(&task, id, attempt, agent).await;
    }
    let Some(queue) = task.host.stores.tool_queue.clone() else {
        return finished(not_run("this node's store has no tool queue"));
    };
    let deadline = match call.state {
        CallState::Started { deadline, .. } => deadline,
        _ => return Ended::silently(),
    };
    let name = name(&task, call, attempt, JobKind::Run);
    let bytes = match message(&task, &queue, call, (attempt, Kind::Run), deadline).await {
        Ok(bytes) => bytes,
        Err(outcome) => return finished(outcome),
    };
    // At the deadline the call ends, and this is aborted.
    tokio::select! { biased;
        () = task.cancelled.cancelled() => Ended::silently(),
        put = put(&task, &queue, Job { name, bytes }) => match put {
            Put::Stands => {
                JobCounts::add(&task.host.jobs.put);
                Ended::with(Input::JobQueued { call: id, attempt })
            }
            Put::Refused(detail) => finished(not_run(&format!("the tool queue refused it: {detail}"))),
            // An earlier try may still land: only the deadline ends this.
            Put::Unknown => {
                task.cancelled.cancelled().await;
                Ended::silently()
            }
        },
    }
}

/// How a put ended.
pub(super) enum Put {
    /// It stands in the queue.
    Stands,
    /// It certainly never will.
    Refused(String),
    /// It was refused after a try whose outcome nobody knows.
    Unknown,
}

/// Puts a job until it is certain that it stands there. A repeated put leaves one job, or the claim
/// and the key make two as good as one.
pub(super) async fn put(task: &Task, queue: &ToolQueue, job: Job) -> Put {
    let (mut tries, mut in_doubt) = (0, false);
    loop {
        match queue.jobs.put(job.clone()).await {
            Ok(()) => return Put::Stands,
            Err(WriteError::Refused(_)) if in_doubt => return Put::Unknown,
            Err(WriteError::Refused(detail)) => return Put::Refused(detail),
            Err(error) => {
                in_doubt |= matches!(error, WriteError::Unknown(_));
                tries += 1;
                task.again("job not put", tries, &error).await;
            }
        }
    }
}

pub(super) fn name(task: &Task, call: &Call, run: u32, kind: JobKind) -> JobName {
    JobName {
        tool: call.tool.clone(),
        session: task.session.key.clone(),
        id: JobId {
            call: call.id,
            run,
            kind,
        },
    }
}

/// The bytes of a job. `Err`: it certainly was not put.
pub(super) async fn message(
    task: &Task,
    queue: &ToolQueue,
    call: &Call,
    (attempt, kind): (u32, Kind),
    deadline: Timestamp,
) -> Result<Bytes, CallOutcome> {
    let Some(profile) = task.session.profile() else {
        return Err(not_run("its session is gone"));
    };
    let job = tool_call::job(task, call, attempt, deadline).await?;
    let addresses = queue.jobs.addresses(&task.session.key, call.id);
    let agent = profile.agent.clone();
    let message = remote::job(job, agent, call.triage.rule, kind, addresses);
    let bytes = tool::encode_job(&message).map_err(|error| not_run(&error.to_string()))?;
    if bytes.len() > jobs::JOB_BYTES_MAX {
        let words = format!(
            "the call did not run: with its arguments it has {} bytes, and remote tools take {JOB_BYTES_MAX}",
            bytes.len()
        );
        return Err(CallOutcome::Done(ToolOutput::error(words).into()));
    }
    Ok(bytes.into())
}
