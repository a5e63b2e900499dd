//! Asks a `never` tool whether an attempt happened.

use steadfast_core::id::CallId;
use steadfast_core::input::{CheckAnswer, Input, Place};
use tracing::Instrument;

use super::remote_check;
use super::task::{Ended, Task};
use super::tool_call::{job, tool, worker};

/// How long a check may take.
pub(super) const CHECK_MS: u64 = 30_000;

pub(super) async fn run(task: Task, call: CallId, attempt: u32) -> Ended {
    let Some(mut answer) = ask(&task, call, attempt).await else {
        return Ended::silently();
    };
    if let CheckAnswer::Done(output) = &mut answer
        && let Err(error) = task.spill().output(output).await
    {
        tracing::warn!(session = %task.session.key, %call, %error, "a check's result is not kept");
        answer = CheckAnswer::Unknown;
    }
    Ended::with(Input::CheckAnswered {
        call,
        attempt,
        answer,
    })
}

/// `None`: nobody wants to know any more.
async fn ask(task: &Task, id: CallId, attempt: u32) -> Option<CheckAnswer> {
    let call = task.call(id)?;
    if call.triage.place == Place::Remote {
        return remote_check::ask(task, id, attempt).await;
    }
    let Ok(tool) = tool(task, call) else {
        return Some(CheckAnswer::Unknown);
    };
    let pools = &task.host.pools;
    // Waiting for a place says nothing about the call: its time begins after that.
    let slot = tokio::select! { biased;
        () = task.cancelled.cancelled() => return None,
        slot = pools.reserve(&tool, &task.session.key) => slot,
    };
    let deadline = task.now().plus_ms(CHECK_MS);
    let asked = async {
        let worker = worker(&tool).ok()?;
        let job = job(task, call, attempt, deadline).await.ok()?;
        let executor = worker.executor();
        let work = async move {
            let answer = worker.check(job).await;
            drop(slot);
            answer
        };
        let mut running = pools.run(executor, work.in_current_span()).await.ok()?;
        running.outcome().await
    };
    tokio::select! { biased;
        () = task.cancelled.cancelled() => None,
        answer = asked => Some(answer.unwrap_or(CheckAnswer::Unknown)),
        () = tokio::time::sleep(task.until(deadline)) => Some(CheckAnswer::Unknown),
    }
}
