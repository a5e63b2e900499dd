//! Asks a `never` tool whether an attempt happened.

use steadfast_core::id::CallId;
use steadfast_core::input::{CheckAnswer, Input};

use super::task::{Ended, Task};
use super::tool_call::{job, tool, worker};

/// How long a check may take.
const CHECK_MS: u64 = 30_000;

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
    let deadline = task.host.now().plus_ms(CHECK_MS);
    let asked = async {
        let worker = worker(tool(task, call)?)?;
        let job = job(task, call, attempt, deadline).await?;
        Ok::<_, steadfast_core::input::CallOutcome>(worker.check(job).await)
    };
    tokio::select! { biased;
        () = task.cancelled.cancelled() => None,
        answer = asked => Some(answer.unwrap_or(CheckAnswer::Unknown)),
        () = tokio::time::sleep(task.host.until(deadline)) => Some(CheckAnswer::Unknown),
    }
}
