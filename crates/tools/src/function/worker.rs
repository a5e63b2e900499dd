//! Runs a Rust function as a tool.

use std::time::Duration;

use async_trait::async_trait;
use steadfast_core::content::ToolOutput;
use steadfast_core::input::{CallOutcome, ReplayRule};
use tokio::time::timeout;

use crate::function::{Handler, ToolCall, ToolFailure};
use crate::worker::{Job, ToolIo, ToolWorker};

/// Time for a function to stop by itself once its time is over.
const GRACE: Duration = Duration::from_secs(5);

/// A function with the rule that says what an unclassified error means.
pub(crate) struct FunctionWorker {
    handler: Handler,
    rule: ReplayRule,
}

impl FunctionWorker {
    pub(crate) fn new(handler: Handler, rule: ReplayRule) -> Self {
        Self { handler, rule }
    }

    fn outcome(&self, failure: ToolFailure) -> CallOutcome {
        match failure {
            ToolFailure::Told(output) => CallOutcome::Done(output.into()),
            ToolFailure::Retry {
                detail,
                retry_after_ms,
            } => CallOutcome::Retry {
                detail,
                retry_after_ms,
            },
            ToolFailure::Unknown { detail } => CallOutcome::Unknown { detail },
            ToolFailure::Unclassified { detail } => match self.rule {
                ReplayRule::Safe => CallOutcome::Done(ToolOutput::error(detail).into()),
                ReplayRule::Keyed | ReplayRule::Never => CallOutcome::Unknown { detail },
            },
        }
    }
}

#[async_trait]
impl ToolWorker for FunctionWorker {
    async fn run(&self, mut job: Job, io: ToolIo) -> CallOutcome {
        if job.remaining_ms == 0 {
            return CallOutcome::Retry {
                detail: "no time was left to start it".to_owned(),
                retry_after_ms: None,
            };
        }
        let input = std::mem::take(&mut job.input);
        let remaining = Duration::from_millis(job.remaining_ms);
        let stop = io.cancelled.child_token();
        let io = ToolIo {
            cancelled: stop.clone(),
            ..io
        };
        let mut running = (self.handler)(input, ToolCall::new(job, io));
        let in_time = match timeout(remaining, &mut running).await {
            Ok(ended) => Ok(ended),
            Err(_) => {
                stop.cancel();
                timeout(GRACE, running).await
            }
        };
        match in_time {
            Ok(Ok(output)) => CallOutcome::Done(output.into()),
            Ok(Err(failure)) => self.outcome(failure),
            Err(_) => CallOutcome::Unknown {
                detail: format!("no outcome within {} ms", remaining.as_millis()),
            },
        }
    }
}
