//! Finds out about a remote `never` call without outcome: withdrawn before any worker had it, or
//! asked of a worker, whose answer comes as mail.

use steadfast_core::id::CallId;
use steadfast_core::input::CheckAnswer;
use steadfast_protocol::tool::Kind;
use steadfast_store::ToolQueue;
use steadfast_store::jobs::{Job, JobKind};

use super::check::CHECK_MS;
use super::job::{self, Put};
use super::notice::withdraw;
use super::task::Task;

/// `None`: nobody wants to know any more, since the answer came or the turn ended.
pub(super) async fn ask(task: &Task, id: CallId, attempt: u32) -> Option<CheckAnswer> {
    let call = task.call(id)?;
    let Some(queue) = task.host.stores.tool_queue.clone() else {
        return Some(CheckAnswer::Unknown);
    };
    tokio::select! { biased;
        () = task.cancelled.cancelled() => None,
        answer = find_out(task, &queue, call, attempt) => Some(answer),
    }
}

async fn find_out(
    task: &Task,
    queue: &ToolQueue,
    call: &steadfast_core::call::Call,
    attempt: u32,
) -> CheckAnswer {
    if call.runs_under_claim() && withdraw(task, queue, call.id, attempt).await {
        return CheckAnswer::Withdrawn;
    }
    if !call.triage.has_check {
        return CheckAnswer::Unknown;
    }
    let deadline = task.now().plus_ms(CHECK_MS);
    let asking = async {
        let about = (attempt, Kind::Check);
        let Ok(bytes) = job::message(task, queue, call, about, deadline).await else {
            return;
        };
        let name = job::name(task, call, attempt, JobKind::Check);
        if let Put::Stands = job::put(task, queue, Job { name, bytes }).await {
            // The answer comes as mail, and ends this.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! { biased;
        () = asking => {}
        () = tokio::time::sleep(task.until(deadline)) => {}
    }
    CheckAnswer::Unknown
}
