//! What happens to every answer of a tool before anybody sees it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use steadfast_core::content::{CallOutput, Stored, ToolOutput};
use steadfast_core::input::{CallOutcome, CheckAnswer, ReplayRule};
use steadfast_core::limits::DETAIL_BYTES_MAX;

use crate::cut::cut;
use crate::definition::{CheckHandler, ModelView};
use crate::function::ToolCall;
use crate::schema::Schema;
use crate::worker::{Executor, Job, ToolIo, ToolWorker};

/// What a tool's answers are held against, and how they are mapped for the model.
pub(super) struct Finish {
    pub(super) rule: ReplayRule,
    pub(super) output: Option<Schema>,
    pub(super) model_view: Option<ModelView>,
}

/// A worker whose answers are finished.
pub(super) struct FinishedWorker {
    pub(super) inner: Arc<dyn ToolWorker>,
    pub(super) finish: Arc<Finish>,
    /// Takes the place of the worker's own check.
    pub(super) check: Option<CheckHandler>,
}

#[async_trait]
impl ToolWorker for FinishedWorker {
    fn executor(&self) -> Executor {
        self.inner.executor()
    }

    async fn run(&self, job: Job, io: ToolIo) -> CallOutcome {
        match self.inner.run(job, io).await {
            CallOutcome::Done(output) => CallOutcome::Done(self.finish.apply(output)),
            other @ (CallOutcome::Retry { .. }
            | CallOutcome::Asks(_)
            | CallOutcome::Unknown { .. }) => other,
        }
    }

    async fn check(&self, mut job: Job) -> CheckAnswer {
        let remaining = Duration::from_millis(job.remaining_ms);
        let asking = async {
            match &self.check {
                Some(check) => {
                    let input = std::mem::take(&mut job.input);
                    check(input, ToolCall::of_check(job)).await
                }
                None => self.inner.check(job).await,
            }
        };
        match tokio::time::timeout(remaining, asking).await {
            Ok(CheckAnswer::Done(output)) => CheckAnswer::Done(self.finish.apply(output)),
            Ok(other @ (CheckAnswer::NotDone | CheckAnswer::Withdrawn | CheckAnswer::Unknown)) => {
                other
            }
            Err(_) => CheckAnswer::Unknown,
        }
    }
}

impl Finish {
    pub(super) fn apply(&self, mut output: CallOutput) -> CallOutput {
        let Stored::Inline(said) = &output.output else {
            return output;
        };
        if said.is_error() {
            return output;
        }
        if let Some(violation) = self.output.as_ref().and_then(|schema| misfit(schema, said)) {
            let words = format!("the result does not fit the tool's output schema: {violation}");
            match self.rule {
                ReplayRule::Safe => {
                    return ToolOutput::error(cut(&words, DETAIL_BYTES_MAX)).into();
                }
                // The tool did run: its result stands, whatever its form.
                ReplayRule::Keyed | ReplayRule::Never => add_note(&mut output.note, &words),
            }
        }
        if output.model_view.is_none()
            && let Some(view) = &self.model_view
        {
            match catch_unwind(AssertUnwindSafe(|| view(said))) {
                Ok(seen) => output.model_view = Some(Box::new(seen)),
                // A known outcome must not be lost to a broken mapping.
                Err(_) => {
                    tracing::error!("a tool's model-output mapping panicked; the result is shown");
                }
            }
        }
        output
    }
}

/// Why a result does not fit. Text is checked as a JSON string; several parts never fit.
fn misfit(schema: &Schema, said: &ToolOutput) -> Option<String> {
    match said {
        ToolOutput::Json { value } => misfit_value(schema, value),
        ToolOutput::Text { text } => misfit_value(schema, &Value::from(text.as_str())),
        ToolOutput::Content { .. } => Some("it is not JSON".to_owned()),
        ToolOutput::ErrorText { .. }
        | ToolOutput::ErrorJson { .. }
        | ToolOutput::ExecutionDenied { .. } => None,
    }
}

fn misfit_value(schema: &Schema, value: &Value) -> Option<String> {
    schema
        .check(value)
        .err()
        .map(|violation| violation.to_string())
}

/// Adds to a note within its bound.
pub(crate) fn add_note(note: &mut Option<String>, words: &str) {
    let joined = match note.take() {
        Some(earlier) => format!("{earlier}; {words}"),
        None => words.to_owned(),
    };
    *note = Some(cut(&joined, DETAIL_BYTES_MAX));
}
