//! Answers of remote workers, which come as mail.

use std::sync::Arc;

use steadfast_core::content::{CallOutput, Stored};
use steadfast_core::effect::Effect;
use steadfast_core::id::{CallId, SessionKey};
use steadfast_core::input::{CallOutcome, CheckAnswer, Input};
use steadfast_core::session::Session;
use steadfast_protocol::record::Cause;
use steadfast_protocol::tool::{Answer, Kind};
use steadfast_tools::remote;

use super::mail::Left;
use super::{Driver, Stance};
use crate::host::Host;
use crate::load::{self, ValueError};
use crate::spill::{Patience, Spill, SpillError};

/// The tool of a call whose answer still matters: it is open, or nobody knows what became of it.
fn awaited(session: &Session, call: CallId) -> Option<String> {
    let open = session.call(call).filter(|call| !call.is_settled());
    open.map(|call| call.tool.clone())
        .or_else(|| session.in_doubt.get(&call).cloned())
}

impl Driver {
    /// Decides about an answer. A session is taken over only if something follows.
    pub(super) async fn take_answer(&mut self, answer: Answer) -> Result<(), Left> {
        let session = self.journal.decided();
        let (call, attempt) = (answer.call, answer.attempt);
        let Some(tool) = awaited(session, call) else {
            tracing::debug!(session = %self.seat.key, %call, "answer that nobody waits for");
            return Ok(());
        };
        let name = session.profile().map(|profile| profile.agent.clone());
        let agent = name.as_ref().and_then(|name| self.host.agent(name));
        if agent.is_none() && self.stance == Stance::Looking {
            // What follows would fail for a slip in the configuration: it waits for its repair.
            tracing::warn!(session = %self.seat.key, "answer waits: its agent is not configured");
            return Err(Left::Later);
        }
        let tool = agent.and_then(|agent| agent.catalog.get(&tool));
        let effect = match answer.kind {
            Kind::Run => Effect::Job { call, attempt },
            Kind::Check => Effect::Check { call, attempt },
        };
        let mut input = remote::input(answer, tool.as_deref());
        let (host, key) = (Arc::clone(&self.host), self.seat.key.clone());
        if let Err(detail) = keep_answer(&host, &key, &mut input).await {
            tracing::warn!(session = %self.seat.key, %call, detail, "answer waits");
            return Err(Left::Soon);
        }
        let looked = self.stance == Stance::Looking;
        if looked {
            self.own(None, self.host.now());
        }
        let now = self.host.now();
        let decided = self.journal.decide(&input, Cause::Effect { effect }, now);
        if looked && decided.events == 0 {
            self.disown();
        }
        Ok(())
    }
}

/// Makes an answer's result small enough for the log. One that cannot be kept is not known. `Err`:
/// the store cannot be reached.
async fn keep_answer(host: &Host, key: &SessionKey, input: &mut Input) -> Result<(), String> {
    let output = match input {
        Input::CallFinished {
            outcome: CallOutcome::Done(output),
            ..
        }
        | Input::CheckAnswered {
            answer: CheckAnswer::Done(output),
            ..
        } => output,
        _ => return Ok(()),
    };
    let Err(lost) = keep_output(host, key, output).await? else {
        return Ok(());
    };
    let detail = format!("it ran, but its result could not be kept: {lost}");
    tracing::error!(session = %key, detail, "answer without its result");
    match input {
        Input::CallFinished { outcome, .. } => *outcome = CallOutcome::Unknown { detail },
        Input::CheckAnswered { answer, .. } => *answer = CheckAnswer::Unknown,
        _ => {}
    }
    Ok(())
}

/// `Ok(Err)`: it never can be kept.
async fn keep_output(
    host: &Host,
    key: &SessionKey,
    output: &mut CallOutput,
) -> Result<Result<(), String>, String> {
    if let Stored::Blob(_) = &output.output {
        // A worker of this program moved it there, whole: what the model sees of it is missing.
        match load::value(&*host.stores.blobs, key, &output.output).await {
            Ok(whole) => output.output = Stored::Inline(whole),
            Err(ValueError::Unavailable(detail)) => return Err(detail),
            Err(ValueError::Damaged(detail)) => return Ok(Err(detail)),
        }
    }
    let patience = Patience::Once;
    let spill = Spill {
        host,
        key,
        patience,
    };
    match spill.output(output).await {
        Ok(()) => Ok(Ok(())),
        Err(SpillError::TooLarge(detail)) => Ok(Err(detail)),
        Err(error @ SpillError::Write(_)) => Err(error.to_string()),
    }
}
