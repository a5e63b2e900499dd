//! Calls that another agent answers: each is a message to a session of its own, named by the call.
//!
//! Asking is idempotent: the session, the message and its content follow from the call. So is
//! cancelling: it first takes the message's id for itself. Either the message was there before, and
//! its turn is ended, or it never will be.

use std::future::Future;
use std::time::Duration;

use serde_json::Value;
use steadfast_core::call::Call;
use steadfast_core::child::{self, ParentCall, TurnShare};
use steadfast_core::command::{Command, CommandBody, MessageOptions, NewSession};
use steadfast_core::content::{CallInput, ContentPart, Stored, ToolOutput};
use steadfast_core::event::{Rejection, Verdict};
use steadfast_core::id::{AgentName, CallId, InvalidId, SessionKey};
use steadfast_core::input::{CallOutcome, Input};
use steadfast_core::session::Session;
use steadfast_core::trace::Traceparent;
use tracing::Span;

use super::task::{Ended, Task};
use crate::host::backoff;
use crate::load::{self, ValueError};
use crate::pools::not_run;
use crate::sessions::{Admission, AdmitError, Sessions};
use crate::trace;

const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Whether the other session was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// It was.
    Here,
    /// This node tells nobody anything any more: the next owner does.
    Later,
}

/// Asks the agent. Its answer comes as mail.
pub(super) async fn run(task: &Task, id: CallId, attempt: u32, agent: AgentName) -> Ended {
    let Some(call) = task.call(id) else {
        return Ended::silently();
    };
    let finished = |outcome| {
        Ended::with(Input::CallFinished {
            call: id,
            attempt,
            outcome,
        })
    };
    let request = match request(task, call, agent).await {
        Ok(request) => request,
        Err(outcome) => return finished(outcome),
    };
    tokio::select! { biased;
        () = task.cancelled.cancelled() => Ended::silently(),
        begun = begin(task, request) => match begun {
            Begun::Stands => Ended::with(Input::JobQueued { call: id, attempt }),
            Begun::Refused(words) => finished(told(&words)),
            Begun::Later => Ended::silently(),
        }
    }
}

/// What the agent's session is sent.
struct Request {
    key: SessionKey,
    command: Command,
}

/// `Err`: nothing was asked.
async fn request(task: &Task, call: &Call, agent: AgentName) -> Result<Request, CallOutcome> {
    let session = &task.session;
    let depth = depth(session) + 1;
    let depth_max = task.host.options.agent_depth_max;
    if depth > depth_max {
        return Err(told(&format!(
            "nothing was done: agents ask agents at most {depth_max} deep; do it yourself"
        )));
    }
    let input = match load::value(&*task.host.stores.blobs, &session.key, &call.input).await {
        Ok(CallInput::Json(input)) => input,
        Ok(CallInput::Malformed { error, .. }) => {
            return Err(not_run(&format!("the arguments are not JSON: {error}")));
        }
        Err(ValueError::Unavailable(detail) | ValueError::Damaged(detail)) => {
            return Err(not_run(&format!("the arguments cannot be read: {detail}")));
        }
    };
    let named = || -> Result<_, InvalidId> {
        Ok((
            child::session_of(&session.key, call.id)?,
            child::message_of(call.id)?,
        ))
    };
    let (key, id) = named().map_err(|error| not_run(&error.to_string()))?;
    let options = MessageOptions {
        parent: Some(Box::new(ParentCall {
            session: session.key.session.clone(),
            call: call.id,
            depth,
        })),
        share: share(session).map(Box::new),
        traceparent: traceparent(session),
        ..MessageOptions::default()
    };
    let body = CommandBody::Submit {
        content: vec![Stored::Inline(ContentPart::Text { text: text(input) })],
        options,
        new: Some(made(agent)),
    };
    let command = Command { id, body };
    Ok(Request { key, command })
}

/// How many sessions stand above this one.
fn depth(session: &Session) -> u32 {
    let parent = session
        .profile()
        .and_then(|profile| profile.parent.as_ref());
    parent.map_or(0, |parent| parent.depth)
}

/// What the turn has left.
fn share(session: &Session) -> Option<TurnShare> {
    let turn = session.turn.as_ref()?;
    let policy = &session.policy;
    let above = turn.options.share.as_deref();
    let steps = above.map_or(policy.steps_max, |above| {
        above.steps_max.min(policy.steps_max)
    });
    let tokens = [
        policy.turn_tokens_max,
        above.and_then(|above| above.tokens_max),
    ];
    let tokens = tokens.into_iter().flatten().min();
    Some(TurnShare {
        steps_max: steps.saturating_sub(turn.step).max(1),
        tokens_max: tokens.map(|tokens| tokens.saturating_sub(turn.usage.total_tokens()).max(1)),
    })
}

fn traceparent(session: &Session) -> Option<Traceparent> {
    let turn = session.turn.as_ref();
    trace::context_of(&Span::current()).or(turn.and_then(|turn| turn.options.traceparent))
}

/// What the agent reads: the one text that it is given, or all arguments as JSON.
fn text(input: Value) -> String {
    match input {
        Value::Object(mut fields) if fields.len() == 1 => match fields.remove("message") {
            Some(Value::String(text)) => text,
            Some(other) => serde_json::json!({ "message": other }).to_string(),
            None => Value::Object(fields).to_string(),
        },
        other => other.to_string(),
    }
}

fn made(agent: AgentName) -> NewSession {
    NewSession {
        agent,
        metadata: Value::Null,
        tags: Vec::new(),
    }
}

fn told(words: &str) -> CallOutcome {
    CallOutcome::Done(ToolOutput::error(words).into())
}

/// How asking ended.
enum Begun {
    /// The message is the session's, durably.
    Stands,
    /// It certainly never will be.
    Refused(String),
    /// This node asks nobody any more.
    Later,
}

async fn begin(task: &Task, request: Request) -> Begun {
    let Request { key, command } = request;
    match admitted(task, &key, command).await {
        Told::Decided(Verdict::Accepted { .. }) => Begun::Stands,
        Told::Decided(Verdict::Rejected { reason }) => {
            let code = reason.code();
            Begun::Refused(format!("the agent was not asked: {code} of session {key}"))
        }
        Told::Decided(Verdict::Done) => Begun::Refused("the agent was not asked".to_owned()),
        Told::Never(error) => Begun::Refused(format!("the agent was not asked: {error}")),
        Told::Later => Begun::Later,
    }
}

/// Ends the turn that the call asked for, or sees to it that there never will be one.
pub(super) async fn cancel(task: &Task, call: CallId, agent: AgentName) -> Asked {
    let named = || -> Result<_, InvalidId> {
        Ok((
            child::session_of(&task.session.key, call)?,
            child::message_of(call)?,
            child::cancel_of(call)?,
        ))
    };
    let Ok((key, message, cancel)) = named() else {
        // A session that cannot be named was never asked.
        return Asked::Here;
    };
    let body = CommandBody::Create { new: made(agent) };
    let id = message.clone();
    match admitted(task, &key, Command { id, body }).await {
        // The message was there before.
        Told::Decided(Verdict::Rejected {
            reason: Rejection::CommandConflict,
        }) => {}
        Told::Decided(_) => return Asked::Here,
        Told::Never(error) => {
            tracing::warn!(session = %key, %error, "a sub-agent is not cancelled");
            return Asked::Here;
        }
        Told::Later => return Asked::Later,
    }
    let mut tries = 0;
    let turn = loop {
        let Some(sessions) = task.host.sessions() else {
            return Asked::Later;
        };
        match sessions.load_newest(&key).await {
            Ok(session) => match session
                .receipts
                .get(&message)
                .map(|receipt| receipt.verdict)
            {
                Some(Verdict::Accepted { turn }) => break turn,
                Some(Verdict::Done | Verdict::Rejected { .. }) | None => return Asked::Here,
            },
            Err(error) => {
                tries += 1;
                tracing::warn!(session = %key, %error, tries, "a sub-agent is not read, again");
                tokio::time::sleep(backoff(WAIT_MIN, WAIT_MAX, tries)).await;
            }
        }
    };
    let body = CommandBody::Cancel { turn: Some(turn) };
    match admitted(task, &key, Command { id: cancel, body }).await {
        // One that ended before is as good.
        Told::Decided(_) => Asked::Here,
        Told::Never(error) => {
            tracing::warn!(session = %key, %error, "a sub-agent is not cancelled");
            Asked::Here
        }
        Told::Later => Asked::Later,
    }
}

/// What another session said to a command.
enum Told {
    Decided(Verdict),
    /// It certainly never takes it.
    Never(AdmitError),
    /// This node asks nobody any more.
    Later,
}

/// Sends a command to another session until it is decided.
async fn admitted(task: &Task, key: &SessionKey, command: Command) -> Told {
    let mut tries = 0;
    loop {
        let Some(sessions) = task.host.sessions() else {
            return Told::Later;
        };
        match admit(&sessions, key, command.clone()).await {
            Ok(Admission::Decided { verdict, .. }) => return Told::Decided(verdict),
            // It is durable; the same again is told what was decided.
            Ok(Admission::Accepted) => {}
            Err(AdmitError::Draining) => return Told::Later,
            Err(
                error @ (AdmitError::AgentUnknown(_)
                | AdmitError::TooLarge(_)
                | AdmitError::Quarantined(_)),
            ) => return Told::Never(error),
            Err(
                error @ (AdmitError::Unavailable(_)
                | AdmitError::StoreFull(_)
                | AdmitError::OutcomeUnknown(_)
                | AdmitError::MailboxFull),
            ) => tracing::warn!(session = %key, %error, tries, "a sub-agent is not told, again"),
        }
        tries += 1;
        tokio::time::sleep(backoff(WAIT_MIN, WAIT_MAX, tries)).await;
    }
}

/// In a box: a session that is asked here runs its own effects, of which this is one.
fn admit<'a>(
    sessions: &'a Sessions,
    key: &'a SessionKey,
    command: Command,
) -> std::pin::Pin<Box<dyn Future<Output = Result<Admission, AdmitError>> + Send + 'a>> {
    Box::pin(sessions.admit(key, command))
}
