//! Effects that go through the tool queue, on a node that has none.

use steadfast_core::id::CallId;
use steadfast_core::input::{CallOutcome, Input};

use super::task::{Ended, Task};

/// Without a queue the job certainly did not reach a worker.
pub(super) fn job(call: CallId, attempt: u32) -> Ended {
    Ended::with(Input::CallFinished {
        call,
        attempt,
        outcome: CallOutcome::Retry {
            detail: "this node has no tool queue for remote tools".into(),
            retry_after_ms: None,
        },
    })
}

/// Without a queue there is no job that a worker could still take: nothing is left to cancel.
pub(super) fn run(task: &Task, number: u64) -> Ended {
    tracing::debug!(session = %task.session.key, number, "notice without a receiver");
    Ended::with(Input::NoticeDelivered {
        notice: number,
        withdrawn: false,
    })
}
