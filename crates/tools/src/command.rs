//! Tools that are commands: JSON on standard input, JSON or text on standard output.
//!
//! | the command | its call |
//! |---|---|
//! | cannot be started | did nothing, may be tried again |
//! | exits with 0 | result: its output, as JSON if it is JSON, else as text |
//! | exits with another code | error: its output, or the end of what it wrote to standard error |
//! | exits with 129 to 159 | unknown: so a shell says that what it ran was killed by a signal |
//! | is killed by a signal, by us at cancel or deadline, or writes far beyond its bound | unknown |
//!
//! It finds `STEADFAST_KEY`, `_SESSION`, `_TURN`, `_ATTEMPT`, `_EPOCH` and `_FENCE` in its
//! environment, beside `PATH`, `TRACEPARENT`, after an approval with a reason
//! `STEADFAST_APPROVAL_REASON`, and the variables named for it, and nothing else of ours. A check
//! starts the same command with `STEADFAST_CHECK=1`; it must do nothing and write
//! `{ "state": "done" | "not_done" | "unknown", "result"? }`. After `not_done` it refuses that key
//! unless `STEADFAST_FENCE`, a text, sorts above that of the check: what was started before may have
//! handed on its work.
//!
//! It runs in a process group of its own, which is killed when its call is over, is dropped or
//! panics; what wants to live longer must leave the group. A program that calls
//! [`lifeline::enter`] first thing has its commands ended also when it is itself killed. In any
//! other program they then go on without it: a `never` call is in doubt, and a call that runs again
//! may overlap with it, which is what `keyed` means and `safe` allows.

pub mod lifeline;
pub(crate) mod options;
pub(crate) mod process;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use steadfast_core::content::{CallOutput, ToolOutput};
use steadfast_core::input::{CallOutcome, CheckAnswer};
use tokio_util::sync::CancellationToken;

pub use options::{CommandOptions, CommandToolError};

use crate::answer::check_answer;
use crate::catalog::add_note;
use crate::command::options::Prepared;
use crate::command::process::{Ended, NotEnded, Run, run};
use crate::received::Received;
use crate::worker::{Executor, Job, ToolIo, ToolWorker};

/// Time for a command to end by itself once it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// Runs calls by starting a command.
#[derive(Debug)]
pub struct CommandTool {
    prepared: Prepared,
}

impl CommandTool {
    /// Checks the options and finds the program.
    pub fn new(options: CommandOptions) -> Result<Self, CommandToolError> {
        Ok(Self {
            prepared: options.prepare()?,
        })
    }

    async fn start(
        &self,
        job: &Job,
        more_env: &[(&str, &str)],
        cancelled: &CancellationToken,
    ) -> Result<Ended, NotEnded> {
        let (mut command, has_lifeline) = self.prepared.command();
        command
            .env("STEADFAST_KEY", job.key())
            .env("STEADFAST_SESSION", job.session.session.as_str())
            .env("STEADFAST_TURN", job.turn.to_string())
            .env("STEADFAST_ATTEMPT", job.attempt.to_string())
            .env("STEADFAST_EPOCH", job.epoch.to_string())
            .env("STEADFAST_FENCE", job.fence().to_string())
            .envs(more_env.iter().copied());
        if let Some(traceparent) = &job.traceparent {
            command.env("TRACEPARENT", traceparent);
        }
        if let Some(reason) = &job.approval_reason {
            // A variable ends at a NUL.
            command.env("STEADFAST_APPROVAL_REASON", reason.replace('\0', ""));
        }
        run(Run {
            command,
            has_lifeline,
            input: format!("{}\n", job.input).into_bytes(),
            remaining: Duration::from_millis(job.remaining_ms),
            grace: GRACE,
            cancelled,
            output_bytes_max: self.prepared.output_bytes_max,
        })
        .await
    }
}

#[async_trait]
impl ToolWorker for CommandTool {
    fn executor(&self) -> Executor {
        Executor::Command
    }

    async fn run(&self, job: Job, io: ToolIo) -> CallOutcome {
        if io.cancelled.is_cancelled() || job.remaining_ms == 0 {
            return CallOutcome::Retry {
                detail: "it was called off before the command was started".to_owned(),
                retry_after_ms: None,
            };
        }
        match self.start(&job, &[], &io.cancelled).await {
            Ok(ended) => outcome(ended),
            Err(NotEnded::NotStarted(detail)) => CallOutcome::Retry {
                detail,
                retry_after_ms: None,
            },
            Err(NotEnded::Stopped(detail)) => CallOutcome::Unknown { detail },
        }
    }

    async fn check(&self, job: Job) -> CheckAnswer {
        let never = CancellationToken::new();
        match self.start(&job, &[("STEADFAST_CHECK", "1")], &never).await {
            Ok(ended) if ended.status.success() => check_answer(ended.stdout.bytes(), false),
            Ok(ended) => {
                let (status, stderr) = (ended.status, ended.stderr.trim());
                tracing::warn!(tool = job.tool, %status, stderr, "a check was not answered");
                CheckAnswer::Unknown
            }
            Err(NotEnded::NotStarted(detail) | NotEnded::Stopped(detail)) => {
                tracing::warn!(tool = job.tool, detail, "a check was not answered");
                CheckAnswer::Unknown
            }
        }
    }
}

/// What a command that ended by itself means for its call.
fn outcome(ended: Ended) -> CallOutcome {
    match ended.status.code() {
        Some(0) => CallOutcome::Done(result(&ended.stdout)),
        Some(129..=159) | None => CallOutcome::Unknown {
            detail: format!("the command was killed: {}", ended.status),
        },
        Some(code) => CallOutcome::Done(error(code, &ended)),
    }
}

fn result(stdout: &Received) -> CallOutput {
    let output = match json(stdout) {
        Some(value) => ToolOutput::Json { value },
        None => ToolOutput::text(stdout.text().trim_end()),
    };
    noted(output, stdout)
}

fn error(code: i32, ended: &Ended) -> CallOutput {
    let stderr = ended.stderr.trim();
    if let Some(value) = json(&ended.stdout) {
        let mut output = noted(ToolOutput::ErrorJson { value }, &ended.stdout);
        add_note(&mut output.note, &format!("exit code {code}"));
        if !stderr.is_empty() {
            add_note(&mut output.note, stderr);
        }
        return output;
    }
    let stdout = ended.stdout.text();
    let mut text = format!("exit code {code}");
    for said in [stdout.trim(), stderr] {
        if !said.is_empty() {
            text.push('\n');
            text.push_str(said);
        }
    }
    noted(ToolOutput::error(text), &ended.stdout)
}

/// The output as JSON, if it is there as a whole and is JSON.
fn json(stdout: &Received) -> Option<Value> {
    match stdout.truncation() {
        Some(_) => None,
        None => serde_json::from_slice(stdout.bytes()).ok(),
    }
}

fn noted(output: ToolOutput, stdout: &Received) -> CallOutput {
    let mut output = CallOutput::from(output);
    if let Some(words) = stdout.truncation() {
        add_note(&mut output.note, &words);
    }
    output
}

#[cfg(test)]
mod tests;
