//! Delivers a notice of the outbox: until the outside has it, over every crash.

use steadfast_core::event::Notice;
use steadfast_core::id::CallId;
use steadfast_core::input::Input;
use steadfast_store::ToolQueue;
use steadfast_store::claims::{Claimed, WITHDRAWN};
use steadfast_store::error::WriteError;
use steadfast_store::jobs::{JobId, JobKind, JobName, claim_key};

use super::task::{Ended, Task};
use super::{child, child_answer, report};

pub(super) async fn run(task: &Task, number: u64) -> Ended {
    let Some(notice) = task.session.outbox.get(&number).cloned() else {
        return Ended::silently();
    };
    tokio::select! { biased;
        () = task.cancelled.cancelled() => Ended::silently(),
        input = deliver(task, number, notice) => input.map_or_else(Ended::silently, Ended::with),
    }
}

/// `None`: not now, and not here.
async fn deliver(task: &Task, number: u64, notice: Notice) -> Option<Input> {
    let delivered = |withdrawn| {
        Some(Input::NoticeDelivered {
            notice: number,
            withdrawn,
        })
    };
    match notice {
        Notice::CancelJob {
            call,
            agent: Some(agent),
            ..
        } => match child::cancel(task, call, agent).await {
            child::Asked::Here => delivered(false),
            child::Asked::Later => None,
        },
        Notice::CancelJob {
            call,
            attempt,
            tool,
            under_claim,
            agent: None,
        } => delivered(cancel_job(task, (call, attempt), tool, under_claim).await),
        Notice::AnswerCall {
            parent,
            outcome,
            last_item,
            ..
        } => {
            let answer = child_answer::Ended {
                parent,
                outcome,
                last_item,
            };
            match child_answer::send(task, answer).await {
                true => delivered(false),
                false => None,
            }
        }
        Notice::ReportTurn {
            turn,
            message,
            at,
            report,
        } => {
            let report = report::Report {
                number,
                turn,
                message,
                at,
                report,
            };
            Some(report::deliver(task, report).await)
        }
    }
}

/// Whether a job was withdrawn before any worker had it.
async fn cancel_job(
    task: &Task,
    (call, attempt): (CallId, u32),
    tool: String,
    under_claim: bool,
) -> bool {
    let Some(queue) = &task.host.stores.tool_queue else {
        // Without a queue there is no job that a worker could still take.
        return false;
    };
    // The claim first: from then on no worker begins, whatever becomes of the job.
    let withdrawn = under_claim && withdraw(task, queue, call, attempt).await;
    let job = JobName {
        tool,
        session: task.session.key.clone(),
        id: JobId {
            call,
            run: attempt,
            kind: JobKind::Run,
        },
    };
    until_done(task, "job not removed", || queue.jobs.remove(&job)).await;
    if !withdrawn {
        let session = &task.session.key;
        until_done(task, "workers not told", || {
            queue.jobs.cancel(session, call)
        })
        .await;
    }
    withdrawn
}

/// Claims a run so that no worker ever begins it; `false`: a worker has it.
pub(super) async fn withdraw(task: &Task, queue: &ToolQueue, call: CallId, run: u32) -> bool {
    let key = claim_key(&task.session.key, call, run);
    let mut tries = 0;
    loop {
        match queue.claims.claim(&key, WITHDRAWN).await {
            Ok(Claimed::Mine) => return true,
            Ok(Claimed::Other(_)) => return false,
            Err(WriteError::Refused(detail)) => {
                tracing::error!(key, detail, "claim refused for good");
                return false;
            }
            Err(error) => {
                tries += 1;
                task.again("claim not withdrawn", tries, &error).await;
            }
        }
    }
}

async fn until_done<F>(task: &Task, what: &'static str, mut write: impl FnMut() -> F)
where
    F: Future<Output = Result<(), WriteError>>,
{
    let mut tries = 0;
    loop {
        match write().await {
            Ok(()) => return,
            Err(WriteError::Refused(detail)) => {
                tracing::error!(session = %task.session.key, what, detail, "given up");
                return;
            }
            Err(error) => {
                tries += 1;
                task.again(what, tries, &error).await;
            }
        }
    }
}
