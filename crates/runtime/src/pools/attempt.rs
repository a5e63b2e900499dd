//! One attempt of a tool call in a worker of its pool: never longer than somebody wants it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steadfast_core::input::CallOutcome;
use steadfast_tools::worker::{Job, PoolPlace, ToolIo, ToolWorker};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{Pools, Slot};

/// Preliminary results between a tool and who shows them, at most; a tool drops what finds no room.
const PROGRESS_MAX: usize = 16;

/// All that an attempt needs.
pub(crate) struct Attempt {
    pub(crate) worker: Arc<dyn ToolWorker>,
    pub(crate) job: Job,
    pub(crate) slot: Slot,
    /// Nobody wants its outcome any more.
    pub(crate) cancelled: CancellationToken,
    /// How long the tool may take to stop by itself.
    pub(crate) grace: Duration,
}

impl Pools {
    /// Runs a tool in a worker of its own. When `stop` says why, it is asked to stop and has a grace
    /// to answer; then its work is called off, and nobody knows what it did.
    pub(crate) async fn attempt(
        &self,
        attempt: Attempt,
        stop: impl Future<Output = &'static str>,
        mut show: impl FnMut(Value),
    ) -> CallOutcome {
        let (progress, mut preliminary) = mpsc::channel(PROGRESS_MAX);
        let stop_token = attempt.cancelled.child_token();
        let io = ToolIo {
            place: PoolPlace::keeping(attempt.slot),
            ..ToolIo::new(stop_token.clone(), progress)
        };
        let (worker, job, cancelled) = (attempt.worker, attempt.job, attempt.cancelled);
        let executor = worker.executor();
        let work = async move {
            // Before it came to this its end may have been decided: then it does not begin.
            if cancelled.is_cancelled() {
                return not_run("it was cancelled before it began");
            }
            worker.run(job, io).await
        };
        let mut running = match self.run(executor, work.in_current_span()).await {
            Ok(running) => running,
            Err(error) => return not_run(&format!("its pool takes no calls: {error}")),
        };
        let stopped = async {
            let why = stop.await;
            stop_token.cancel();
            tokio::time::sleep(attempt.grace).await;
            why
        };
        tokio::pin!(stopped);
        let why = loop {
            tokio::select! { biased;
                outcome = running.outcome() => return outcome.unwrap_or_else(panicked),
                Some(output) = preliminary.recv() => show(output),
                why = &mut stopped => break why,
            }
        };
        if running.revoke() {
            return not_run("no thread of its pool was free before it was given up");
        }
        CallOutcome::Unknown { detail: why.into() }
    }
}

/// The tool certainly did nothing.
pub(crate) fn not_run(detail: &str) -> CallOutcome {
    CallOutcome::Retry {
        detail: detail.into(),
        retry_after_ms: None,
    }
}

fn panicked() -> CallOutcome {
    CallOutcome::Unknown {
        detail: "the tool panicked".into(),
    }
}
