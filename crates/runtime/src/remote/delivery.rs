//! One delivery of a job, from its claim to its answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use steadfast_core::content::{BlobRef, CallOutput, Stored};
use steadfast_core::id::{CallId, SessionKey, Timestamp};
use steadfast_core::input::{CallOutcome, CheckAnswer, ReplayRule};
use steadfast_protocol::EncodeError;
use steadfast_protocol::tool::{self, Answer, Kind, Outcome, Progress};
use steadfast_store::error::WriteError;
use steadfast_store::jobs::{JobDelivery, claim_key};
use steadfast_store::mailbox::{Lane, SendError};
use steadfast_tools::catalog::Tool;
use steadfast_tools::worker::{Job, ToolWorker};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::claim::claim;
use super::counts::JobCounts;
use super::worker::RemoteWorker;
use crate::pools::{self, Slot};

/// Words of progress between a tool and the queue, at most; what finds no room is dropped.
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
            tokio::time::sleep(worker.options().keep_alive_every).await;
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
        Handled::GivenBack => {
            JobCounts::add(&worker.counts().given_back);
            let delay = worker.options().give_back_delay;
            delivery.give_back(delay).await
        }
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
        let slot = match self.place(&message, &session, &wanted.token).await {
            Ok(slot) => slot,
            Err(handled) => return handled,
        };
        // What the tool is configured to be here counts, if it is stricter than what the job says.
        if message.replay.max(self.tool.spec.replay) == ReplayRule::Never
            && let Err(handled) = self.claim(&message, &session, &wanted.token).await
        {
            return handled;
        }
        let _runs = JobCounts::during(&self.worker.counts().running);
        let (call, attempt) = (message.call, message.attempt);
        let outcome = match self.attempt(message, slot, &wanted.token).await {
            CallOutcome::Done(output) => Outcome::Finished { output },
            // Nobody can answer it there.
            CallOutcome::Asks(_) => Outcome::Unknown {
                detail: "the tool asks somebody something, which it cannot from a worker"
                    .to_owned(),
            },
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

    /// A place in the tool's pool, before anything is claimed: while the job waits for one, any
    /// other worker may have it.
    async fn place(
        &self,
        message: &tool::Job,
        session: &SessionKey,
        wanted: &CancellationToken,
    ) -> Result<Slot, Handled> {
        let remaining = self.remaining(message);
        if remaining.is_zero() {
            // Its owner looks at deadlines; nobody waits for an answer.
            return Err(Handled::Over);
        }
        let patience = self.worker.options().place_patience;
        tokio::select! { biased;
            () = wanted.cancelled() => Err(Handled::Over),
            () = self.stop.cancelled() => Err(Handled::GivenBack),
            slot = self.worker.host.pools.reserve(self.tool, session) => {
                slot.ok_or(Handled::GivenBack)
            }
            () = tokio::time::sleep(remaining) => Err(Handled::Over),
            () = tokio::time::sleep(patience) => Err(Handled::GivenBack),
        }
    }

    /// Claims a `never` run for this delivery. `Err`: it must not run here.
    async fn claim(
        &self,
        message: &tool::Job,
        session: &SessionKey,
        wanted: &CancellationToken,
    ) -> Result<(), Handled> {
        let worker = self.worker;
        let key = claim_key(session, message.call, message.attempt);
        let holder = worker.holder();
        let claiming = claim(&*worker.queue.claims, &key, &holder, worker.options());
        let claimed = tokio::select! { biased;
            () = wanted.cancelled() => return Err(Handled::Over),
            () = self.stop.cancelled() => return Err(Handled::GivenBack),
            claimed = claiming => claimed,
            () = tokio::time::sleep(self.remaining(message)) => return Err(Handled::Over),
        };
        match claimed {
            Ok(true) => {
                JobCounts::add(&worker.counts().claimed);
                Ok(())
            }
            Ok(false) => {
                JobCounts::add(&worker.counts().claims_lost);
                Err(Handled::Over)
            }
            Err(error) => {
                tracing::error!(key, error, "job given back: its claim was refused");
                Err(Handled::GivenBack)
            }
        }
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
        let now = self.worker.host.now();
        Duration::from_millis(message.deadline_at_ms.saturating_sub(now.0))
    }

    /// Runs the tool in a worker of its pool, and passes on how far it is.
    async fn attempt(
        &self,
        message: tool::Job,
        slot: Slot,
        wanted: &CancellationToken,
    ) -> CallOutcome {
        let host = &self.worker.host;
        let (session, call) = (message.session_key(), message.call);
        let remaining = self.remaining(&message);
        let attempt = pools::Attempt {
            worker: Arc::clone(&self.code),
            job: job(message, remaining),
            slot,
            cancelled: wanted.clone(),
            grace: host.options.cancel_grace,
        };
        let stop = async {
            tokio::select! { biased;
                () = wanted.cancelled() => "it was cancelled and gave no outcome",
                () = self.stop.cancelled() => "its worker was shut down and it gave no outcome",
                () = tokio::time::sleep(remaining) => "it gave no outcome before its deadline",
            }
        };
        let (words, mut said) = mpsc::channel(PROGRESS_MAX);
        let show = |output| {
            // A word for which there is no room is not shown; the next one takes its place.
            let _dropped = words.try_send(output);
        };
        let running = host.pools.attempt(attempt, stop, show);
        // Beside the run: a broker that is away must not keep a deadline from being seen.
        let tell = async {
            while let Some(output) = said.recv().await {
                self.progress(&session, call, output).await;
            }
            std::future::pending().await
        };
        tokio::select! { biased;
            outcome = running => outcome,
            outcome = tell => outcome,
        }
    }

    async fn progress(&self, session: &SessionKey, call: CallId, output: Value) {
        let version = tool::VERSION;
        let said = Progress {
            version,
            call,
            output,
        };
        // Nobody waits for it, and one that is too large is not shown.
        if let Ok(bytes) = tool::encode_progress(&said) {
            let told = self.worker.queue.jobs.progress(session, bytes.into()).await;
            if let Err(error) = told {
                tracing::debug!(%session, %call, %error, "progress not told");
            }
        }
    }

    /// Sends an answer until its mailbox has it.
    async fn answer(&self, session: &SessionKey, mut answer: Answer) -> Handled {
        let options = self.worker.options();
        let id = format!("answer-{}-{}", answer.call, answer.attempt);
        let send = async {
            let mut tries = 0;
            loop {
                match self.try_answer(session, &id, &mut answer).await {
                    Ok(()) => {
                        JobCounts::add(&self.worker.counts().answered);
                        return Handled::Over;
                    }
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
        let mailbox = &self.worker.host.stores.mailbox;
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
            let blobs = &self.worker.host.stores.blobs;
            let blob: BlobRef = blobs.put(session, bytes.into()).await?;
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
        answered: None,
        approval_reason: message.approval_reason,
        metadata: message.metadata,
        traceparent: message.traceparent,
    }
}
