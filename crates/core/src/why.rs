//! What a session waits for, for people.

use serde::{Deserialize, Serialize};

use crate::call::{CallState, Question};
use crate::child;
use crate::effect::Effect;
use crate::id::{AgentName, ApprovalId, CallId, SessionId, Timestamp, TurnId};
use crate::outstanding::outstanding;
use crate::session::{Session, TurnPhase};

/// Somebody outside who owes an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Waiting {
    /// A person decides about a call.
    Approval {
        /// The approval.
        approval: ApprovalId,
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Since when.
        since: Timestamp,
        /// When it counts as denied.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    },
    /// The client sends a result.
    ClientResult {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Since when.
        since: Timestamp,
    },
    /// The client answers what a tool asks.
    Input {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Since when.
        since: Timestamp,
        /// What it asks.
        question: Question,
    },
    /// Somebody says whether a call happened.
    InDoubt {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// Since when.
        since: Timestamp,
    },
}

/// Why the session is as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The turn that runs or waits.
    pub turn: Option<TurnId>,
    /// Work that should be running.
    pub outstanding: Vec<Effect>,
    /// Answers that people owe.
    pub waiting: Vec<Waiting>,
    /// Calls that other agents answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildCall>,
    /// Waits by the clock: what, and until when.
    pub timers: Vec<Timer>,
    /// One sentence for people.
    pub summary: String,
}

/// A call that another agent answers, in a session of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildCall {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// The agent.
    pub agent: AgentName,
    /// Its session, which says what it waits for in turn.
    pub session: SessionId,
    /// Since when.
    pub since: Timestamp,
}

/// A wait by the clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// What waits.
    pub what: String,
    /// Until when.
    pub until: Timestamp,
}

/// The answers that people owe to the open turn.
pub fn waiting(session: &Session) -> Vec<Waiting> {
    let calls = session.turn.iter().flat_map(|turn| turn.calls.iter());
    calls
        .filter_map(|call| {
            let (id, tool, since) = (call.id, call.tool.clone(), call.since);
            match call.state {
                CallState::AwaitingApproval {
                    approval,
                    expires_at,
                } => Some(Waiting::Approval {
                    approval,
                    call: id,
                    tool,
                    since,
                    expires_at,
                }),
                CallState::AwaitingClient => Some(Waiting::ClientResult {
                    call: id,
                    tool,
                    since,
                }),
                CallState::AwaitingInput => Some(Waiting::Input {
                    call: id,
                    tool,
                    since,
                    question: call.question.as_ref()?.question.clone(),
                }),
                CallState::InDoubt { .. } => Some(Waiting::InDoubt {
                    call: id,
                    tool,
                    since,
                }),
                CallState::Proposed
                | CallState::AwaitingSlot
                | CallState::Started { .. }
                | CallState::Queued { .. }
                | CallState::Backoff { .. }
                | CallState::Checking { .. }
                | CallState::Settled { .. } => None,
            }
        })
        .collect()
}

/// Explains the session's state.
pub fn why(session: &Session) -> Why {
    let outstanding = outstanding(session);
    let waiting = waiting(session);
    let timers = timers(session);
    let children = children(session);
    let summary = summary(session, &outstanding, &waiting, &children, &timers);
    Why {
        turn: session.turn.as_ref().map(|turn| turn.id),
        outstanding,
        waiting,
        children,
        timers,
        summary,
    }
}

fn children(session: &Session) -> Vec<ChildCall> {
    let calls = session.turn.iter().flat_map(|turn| turn.calls.iter());
    let open = calls.filter(|call| matches!(call.state, CallState::Queued { .. }));
    open.filter_map(|call| {
        Some(ChildCall {
            call: call.id,
            tool: call.tool.clone(),
            agent: call.triage.agent.clone()?,
            session: child::session_of(&session.key, call.id).ok()?.session,
            since: call.since,
        })
    })
    .collect()
}

fn timers(session: &Session) -> Vec<Timer> {
    let mut timers = Vec::new();
    if let Some(until) = session
        .compaction
        .as_ref()
        .and_then(|compaction| compaction.retry_at)
    {
        timers.push(Timer {
            what: "next attempt of the compaction".into(),
            until,
        });
    }
    let Some(turn) = &session.turn else {
        return timers;
    };
    if let Some(until) = turn.hold_until {
        timers.push(Timer {
            what: "recovery after a crash".into(),
            until,
        });
    }
    if let TurnPhase::Backoff {
        retry_at: until,
        attempt,
    } = turn.phase
    {
        let what = format!("model call, attempt {}", attempt.saturating_add(1));
        timers.push(Timer { what, until });
    }
    for call in &turn.calls {
        if let CallState::Backoff {
            retry_at: until,
            attempt,
            ..
        } = call.state
        {
            let what = format!(
                "call of {}, attempt {}",
                call.tool,
                attempt.saturating_add(1)
            );
            timers.push(Timer { what, until });
        }
    }
    timers
}

fn summary(
    session: &Session,
    outstanding: &[Effect],
    waiting: &[Waiting],
    children: &[ChildCall],
    timers: &[Timer],
) -> String {
    if session.turn.is_none() && outstanding.is_empty() && timers.is_empty() {
        return "nothing: no turn is open".into();
    }
    let mut parts: Vec<String> = outstanding
        .iter()
        .map(|effect| running(session, effect))
        .collect();
    parts.extend(
        timers
            .iter()
            .map(|timer| format!("the clock, for the {}", timer.what)),
    );
    parts.extend(waiting.iter().map(|waiting| match waiting {
        Waiting::Approval { tool, .. } => format!("a person's decision about {tool}"),
        Waiting::ClientResult { tool, .. } => format!("the client's result of {tool}"),
        Waiting::Input { tool, .. } => format!("the client's answer to what {tool} asks"),
        Waiting::InDoubt { tool, .. } => format!("somebody to say whether {tool} happened"),
    }));
    parts.extend(
        children
            .iter()
            .map(|child| format!("agent {} in session {}", child.agent, child.session)),
    );
    if parts.is_empty() {
        "its owner's next decision".into()
    } else {
        parts.join("; ")
    }
}

fn running(session: &Session, effect: &Effect) -> String {
    let tool = |call: CallId| {
        session
            .call(call)
            .map_or("a tool", |call| call.tool.as_str())
    };
    match effect {
        Effect::ModelCall { attempt, .. } => format!("the model's reply (attempt {attempt})"),
        Effect::Compaction { .. } => "the model's summary of the history".into(),
        Effect::SlotReservation { call } => format!("a free slot for {}", tool(*call)),
        Effect::ToolCall { call, .. } => format!("the result of {}", tool(*call)),
        Effect::Check { call, .. } => format!("the check of {}", tool(*call)),
        Effect::Job { call, .. } => format!("the tool queue, for {}", tool(*call)),
        Effect::Notice { .. } => "a notice to the outside".into(),
    }
}
