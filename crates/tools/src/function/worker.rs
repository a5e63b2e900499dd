//! Runs a Rust function as a tool.

use std::time::Duration;

use async_trait::async_trait;
use steadfast_core::content::ToolOutput;
use steadfast_core::input::{CallOutcome, ReplayRule};
use tokio::time::timeout;

use crate::function::{Handler, ToolCall, ToolFailure};
use crate::worker::{Job, ToolIo, ToolWorker};

/// Time for a function to stop by itself once its time is over.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// A function with the rule that says what an unclassified error means.
pub(crate) struct FunctionWorker {
    handler: Handler,
    rule: ReplayRule,
}

impl FunctionWorker {
    pub(crate) fn new(handler: Handler, rule: ReplayRule) -> Self {
        Self { handler, rule }
    }
}

#[async_trait]
impl ToolWorker for FunctionWorker {
    async fn run(&self, mut job: Job, io: ToolIo) -> CallOutcome {
        if job.remaining_ms == 0 {
            return not_begun("no time was left to start it");
        }
        let input = std::mem::take(&mut job.input);
        let remaining = Duration::from_millis(job.remaining_ms);
        let stop = io.cancelled.child_token();
        // A copy of the call that the function keeps somewhere is not the call.
        let _place = io.place;
        let io = ToolIo::new(stop.clone(), io.progress);
        let mut running = (self.handler)(input, ToolCall::new(job, io));
        let in_time = match timeout(remaining, &mut running).await {
            Ok(ended) => Ok(ended),
            Err(_) => {
                stop.cancel();
                timeout(GRACE, running).await
            }
        };
        match in_time {
            Ok(said) => outcome(said, self.rule),
            Err(_) => late(remaining),
        }
    }
}

/// What a function's answer means for its call.
pub(super) fn outcome(said: Result<ToolOutput, ToolFailure>, rule: ReplayRule) -> CallOutcome {
    match said {
        Ok(output) | Err(ToolFailure::Told(output)) => CallOutcome::Done(output.into()),
        Err(ToolFailure::Retry {
            detail,
            retry_after_ms,
        }) => CallOutcome::Retry {
            detail,
            retry_after_ms,
        },
        Err(ToolFailure::Unknown { detail }) => CallOutcome::Unknown { detail },
        Err(ToolFailure::Unclassified { detail }) => match rule {
            ReplayRule::Safe => CallOutcome::Done(ToolOutput::error(detail).into()),
            ReplayRule::Keyed | ReplayRule::Never => CallOutcome::Unknown { detail },
        },
    }
}

pub(super) fn not_begun(detail: impl Into<String>) -> CallOutcome {
    CallOutcome::Retry {
        detail: detail.into(),
        retry_after_ms: None,
    }
}

pub(super) fn late(remaining: Duration) -> CallOutcome {
    CallOutcome::Unknown {
        detail: format!("no outcome within {} ms", remaining.as_millis()),
    }
}
