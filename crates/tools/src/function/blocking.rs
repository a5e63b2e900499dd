//! Runs a Rust function that blocks, on a thread of its own.
//!
//! The threads are not those of the runtime's blocking pool: that pool is shared with file and name
//! look-ups, and a runtime that ends waits for it, so a function that hangs would keep a process
//! from ending.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use steadfast_core::content::ToolOutput;
use steadfast_core::input::{CallOutcome, ReplayRule};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Span;

use crate::function::worker::{GRACE, late, not_begun, outcome};
use crate::function::{ToolCall, ToolFailure};
use crate::worker::{Executor, Job, ToolIo, ToolWorker};

/// A function that blocks, with its types erased.
pub(crate) type BlockingHandler =
    Arc<dyn Fn(Value, ToolCall) -> Result<ToolOutput, ToolFailure> + Send + Sync>;

/// A function that blocks, with the rule that says what an unclassified error means.
pub(crate) struct BlockingWorker {
    handler: BlockingHandler,
    rule: ReplayRule,
}

impl BlockingWorker {
    pub(crate) fn new(handler: BlockingHandler, rule: ReplayRule) -> Self {
        Self { handler, rule }
    }
}

#[async_trait]
impl ToolWorker for BlockingWorker {
    fn executor(&self) -> Executor {
        Executor::Blocking
    }

    async fn run(&self, mut job: Job, io: ToolIo) -> CallOutcome {
        if job.remaining_ms == 0 {
            return not_begun("no time was left to start it");
        }
        let input = std::mem::take(&mut job.input);
        let remaining = Duration::from_millis(job.remaining_ms);
        let stop = io.cancelled.child_token();
        // Dropped with this future: the function is told that nobody waits any more.
        let _told = stop.clone().drop_guard();
        let place = io.place;
        let call = ToolCall::new(job, ToolIo::new(stop.clone(), io.progress));
        let handler = Arc::clone(&self.handler);
        let span = Span::current();
        let (answer, mut answered) = oneshot::channel();
        let begun = thread::Builder::new().name("tool".into()).spawn(move || {
            let said = span.in_scope(|| handler(input, call));
            // Free before the answer is heard, so that the next call finds it so.
            drop(place);
            // Nobody hears it when the call was given up meanwhile.
            let _given_up = answer.send(said);
        });
        if let Err(error) = begun {
            return not_begun(format!("no thread can be started for it: {error}"));
        }
        let in_time = match timeout(remaining, &mut answered).await {
            Ok(ended) => Ok(ended),
            Err(_) => {
                stop.cancel();
                timeout(GRACE, answered).await
            }
        };
        match in_time {
            Ok(Ok(said)) => outcome(said, self.rule),
            Ok(Err(_)) => CallOutcome::Unknown {
                detail: "the tool panicked".to_owned(),
            },
            Err(_) => late(remaining),
        }
    }
}
