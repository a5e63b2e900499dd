//! One delivery of a job, from its claim to its answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use steadfast_core::content::{BlobRef, CallOutput, Stored};
use steadfast_core::id::{SessionKey, Timestamp};
use steadfast_core::input::{CallOutcome, CheckAnswer, ReplayRule};
use steadfast_protocol::EncodeError;
use steadfast_protocol::tool::{self, Answer, Kind, Outcome, Progress};
use steadfast_store::error::WriteError;
use steadfast_store::jobs::{JobDelivery, claim_key};
use steadfast_store::mailbox::{Lane, SendError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::claim::claim;
use super::worker::RemoteWorker;
use crate::catalog::Tool;
use crate::worker::{Job, ToolIo, ToolWorker};

/// Preliminary results between a tool and the queue, at most; a tool drops what finds no room.
const PROGRESS_MAX: usize = 16;

/// What becomes of a delivery.
enum Handled {
    /// It is over: the job leaves the queue.
    Over,
    /// It is for somebody else, or for later.
    GivenBack,
    /// It stays as it is, and comes again.
    Left,
}

/// Takes care of a delivery, and says meanwhile that somebody does.
pub(super) async fn handle(
    worker: &Arc<RemoteWorker>,
    delivery: Arc<dyn JobDelivery>,
    stop: CancellationToken,
) {
    let keep_alive = async {
        loop {
            tokio::time::sleep(worker.options.keep_alive_every).await;
            if let Err(error) = delivery.keep_alive().await {
                // Without it the job comes again, which its claim or its key allows for.
                tracing::debug!(%error, "job not kept alive");
            }
        }
    };
    let handled = tokio::select! { biased;
        handled = take_care(worker, &delivery, stop) => handled,
        () = keep_alive => Handled::Left,
    };
    let told = match handled {
        Handled::Over => delivery.finish().await,
        Handled::GivenBack => delivery.give_back(worker.options.give_back_delay).await,
        Handled::Left => Ok(()),
    };
    if let Err(error) = told {
        tracing::debug!(%error, "job not settled with its queue: it comes again");
    }
}

async fn take_care(
    worker: &Arc<RemoteWorker>,
    delivery: &Arc<dyn JobDelivery>,
    stop: CancellationToken,
) -> Handled {
    let name = &delivery.job().name;
    let message = match tool::decode_job(&delivery.job().bytes) {
        Ok(message) => message,
        Err(error) => {
            tracing::error!(?name, %error, "job dropped");
            return Handled::Over;
        }
    };
    let Some(tool) = worker.tool(&message.agent, &message.tool) else {
        return Handled::GivenBack;
    };
    let Some(code) = tool.worker.clone() else {
        return Handled::GivenBack;
    };
    let attempt = Attempt {
        worker,
        tool,
        code,
        stop,
    };
    match message.kind {
        Kind::Run => attempt.run(message).await,
        Kind::Check => attempt.check(message).await,
    }
}

/// What it takes to run a job.
struct Attempt<'a> {
    worker: &'a Arc<RemoteWorker>,
    tool: &'a Arc<Tool>,
    code: Arc<dyn ToolWorker>,
    /// The worker ends.
    stop: CancellationToken,
}

impl Attempt<'_> {
    async fn run(&self, message: tool::Job) -> Handled {
        let session = message.session_key();
        let wanted = self.worker.wanted(session.clone(), message.call);
        let remaining = self.remaining(&message);
        if remaining.is_zero() {
            // Its owner looks at deadlines; nobody waits for an answer.
            return Handled::Over;
        }
        // What the tool is configured to be here counts, if it is stricter than what the job says.
        if message.replay.max(self.tool.spec.replay) == ReplayRule::Never {
            let (key, holder) = (
                claim_key(&session, message.call, message.attempt),
                self.worker.holder(),
            );
            let claiming = claim(
                &*self.worker.queue.claims,
                &key,
                &holder,
                &self.worker.options,
            );
            let claimed = tokio::select! { biased;
                () = wanted.token.cancelled() => return Handled::Over,
                () = self.stop.cancelled() => return Handled::GivenBack,
                claimed = claiming => claimed,
                () = tokio::time::sleep(remaining) => return Handled::Over,
            };
            match claimed {
                Ok(true) => {}
                Ok(false) => return Handled::Over,
                Err(error) => {
                    tracing::error!(key, error, "job given back: its claim was refused");
                    return Handled::GivenBack;
                }
            }
        }
        let (call, attempt) = (message.call, message.attempt);
        let outcome = self.attempt(message, &wanted.token).await;
        let outcome = match outcome {
            CallOutcome::Done(output) => Outcome::Finished { output },
            CallOutcome::Retry {
                detail,
                retry_after_ms,
            } => Outcome::Retry {
                detail,
                retry_after_ms,
            },
            CallOutcome::Unknown { detail } => Outcome::Unknown { detail },
        };
        let answer = Answer {
            version: tool::VERSION,
            kind: Kind::Run,
            call,
            attempt,
            outcome,
        };
        self.answer(&session, answer).await
    }

    async fn check(&self, message: tool::Job) -> Handled {
        let session = message.session_key();
        let remaining = self.remaining(&message);
        if remaining.is_zero() {
            return Handled::Over;
        }
        let (call, attempt) = (message.call, message.attempt);
        let asking = AssertUnwindSafe(self.code.check(job(message, remaining))).catch_unwind();
        let said = tokio::select! { biased;
            () = self.stop.cancelled() => return Handled::GivenBack,
            said = asking => said.unwrap_or(CheckAnswer::Unknown),
            () = tokio::time::sleep(remaining) => return Handled::Over,
        };
        let outcome = match said {
            CheckAnswer::Done(output) => Outcome::Finished { output },
            CheckAnswer::NotDone => Outcome::NotDone {},
            CheckAnswer::Withdrawn | CheckAnswer::Unknown => Outcome::Unknown {
                detail: String::new(),
            },
        };
        let answer = Answer {
            version: tool::VERSION,
            kind: Kind::Check,
            call,
            attempt,
            outcome,
        };
        self.answer(&session, answer).await
    }

    fn remaining(&self, message: &tool::Job) -> Duration {
        let now = self.worker.clock.now();
        Duration::from_millis(message.deadline_at_ms.saturating_sub(now.0))
    }

    /// Runs the tool. At its deadline, or when it is no longer wanted, it is asked to stop and has a
    /// grace to answer; then it is dropped, and nobody knows what it did.
    async fn attempt(&self, message: tool::Job, wanted: &CancellationToken) -> CallOutcome {
        let (progress, mut preliminary) = mpsc::channel(PROGRESS_MAX);
        let stop_token = wanted.child_token();
        let io = ToolIo::new(stop_token.clone(), progress);
        let (session, call) = (message.session_key(), message.call);
        let remaining = self.remaining(&message);
        let job = job(message, remaining);
        let running = AssertUnwindSafe(self.code.run(job, io)).catch_unwind();
        let until_stop = async {
            let why = tokio::select! { biased;
                () = wanted.cancelled() => "it was cancelled and gave no outcome",
                () = self.stop.cancelled() => "its worker was shut down and it gave no outcome",
                () = tokio::time::sleep(remaining) => "it gave no outcome before its deadline",
            };
            stop_token.cancel();
            tokio::time::sleep(self.worker.options.cancel_grace).await;
            why
        };
        tokio::pin!(running, until_stop);
        loop {
            tokio::select! { biased;
                outcome = &mut running => return outcome.unwrap_or_else(|_| CallOutcome::Unknown {
                    detail: "the tool panicked".into(),
                }),
                Some(output) = preliminary.recv() => {
                    let version = tool::VERSION;
                    let said = Progress { version, call, output };
                    // Nobody waits for it, and one that is too large is not shown.
                    if let Ok(bytes) = tool::encode_progress(&said) {
                        let _lost = self.worker.queue.jobs.progress(&session, bytes.into()).await;
                    }
                }
                why = &mut until_stop => return CallOutcome::Unknown { detail: why.into() },
            }
        }
    }

    /// Sends an answer until its mailbox has it.
    async fn answer(&self, session: &SessionKey, mut answer: Answer) -> Handled {
        let options = &self.worker.options;
        let id = format!("answer-{}-{}", answer.call, answer.attempt);
        let send = async {
            let mut tries = 0;
            loop {
                match self.try_answer(session, &id, &mut answer).await {
                    Ok(()) => return Handled::Over,
                    Err(SendError::Write(WriteError::Refused(detail))) => {
                        tracing::error!(%session, id, detail, "answer refused for good");
                        return Handled::Over;
                    }
                    Err(error) => {
                        tries += 1;
                        tracing::warn!(%session, id, tries, %error, "answer not sent, again");
                        tokio::time::sleep(options.wait(tries)).await;
                    }
                }
            }
        };
        match tokio::time::timeout(options.answer_patience, send).await {
            Ok(handled) => handled,
            Err(_) => {
                tracing::error!(%session, id, "answer given up: its call runs into its deadline");
                Handled::Left
            }
        }
    }

    async fn try_answer(
        &self,
        session: &SessionKey,
        id: &str,
        answer: &mut Answer,
    ) -> Result<(), SendError> {
        let bytes = match tool::encode_answer(answer) {
            Err(EncodeError::TooLarge { .. }) => {
                self.move_to_blob(session, answer).await?;
                tool::encode_answer(answer)
            }
            encoded => encoded,
        };
        let bytes = bytes.map_err(|error| WriteError::Refused(error.to_string()))?;
        let mailbox = &self.worker.mailbox;
        mailbox
            .send(session, Lane::Control, id, bytes.into())
            .await
            .map(drop)
    }

    /// Moves the result of an answer that is too large for a letter beside it.
    async fn move_to_blob(
        &self,
        session: &SessionKey,
        answer: &mut Answer,
    ) -> Result<(), WriteError> {
        if let Outcome::Finished { output } = &mut answer.outcome
            && let Stored::Inline(whole) = &output.output
        {
            let bytes = serde_json::to_vec(whole)
                .map_err(|error| WriteError::Refused(error.to_string()))?;
            let blob: BlobRef = self.worker.blobs.put(session, bytes.into()).await?;
            *output = CallOutput {
                output: Stored::Blob(blob),
                ..output.clone()
            };
        }
        Ok(())
    }
}

/// What the tool is told.
fn job(message: tool::Job, remaining: Duration) -> Job {
    Job {
        session: message.session_key(),
        turn: message.turn,
        call: message.call,
        attempt: message.attempt,
        epoch: message.epoch,
        tool: message.tool,
        input: message.input,
        deadline: Timestamp(message.deadline_at_ms),
        remaining_ms: u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX),
        approval_reason: message.approval_reason,
        metadata: message.metadata,
        traceparent: message.traceparent,
    }
}
