//! The spans of a session's work: turn, step, and in it model calls and tool calls.
//!
//! Their attributes follow the semantic conventions for generative AI.

use opentelemetry::Value;
use steadfast_core::content::{Finish, ModelReply, Stored};
use steadfast_core::effect::Effect;
use steadfast_core::event::TurnOutcome;
use steadfast_core::id::{CallId, TurnId};
use steadfast_core::input::{CallOutcome, ModelFailure};
use steadfast_core::session::{Session, Turn};
use tracing::Span;

use crate::agent::Agent;
use crate::trace::{self, describe};

/// The open spans of a session.
#[derive(Default)]
pub(super) struct Spans {
    turn: Option<(TurnId, Span)>,
    step: Option<(u32, Span)>,
}

impl Spans {
    /// The span of an effect, under that of its turn and step.
    pub(super) fn of(&mut self, session: &Session, agent: Option<&Agent>, effect: Effect) -> Span {
        let parent = match &session.turn {
            Some(turn) => self.step(session, agent, turn),
            None => Span::none(),
        };
        let key = &session.key;
        match effect {
            Effect::ModelCall { attempt, .. } => {
                let span = tracing::info_span!(
                    parent: &parent, "model_call", attempt,
                    otel.name = tracing::field::Empty, otel.kind = "client"
                );
                asks_model(&span, session, agent);
                span
            }
            Effect::Compaction {
                number, attempt, ..
            } => {
                let span = tracing::info_span!(
                    parent: &parent, "compaction", session = %key, number, attempt,
                    otel.name = tracing::field::Empty, otel.kind = "client"
                );
                asks_model(&span, session, agent);
                span
            }
            Effect::ToolCall { call, attempt } => {
                let span = tracing::info_span!(
                    parent: &parent, "call", %call, attempt,
                    otel.name = tracing::field::Empty
                );
                runs_tool(&span, session, call);
                span
            }
            Effect::SlotReservation { .. }
            | Effect::Check { .. }
            | Effect::Job { .. }
            | Effect::Notice { .. } => {
                tracing::debug_span!(parent: &parent, "effect", session = %key, %effect)
            }
        }
    }

    fn step(&mut self, session: &Session, agent: Option<&Agent>, turn: &Turn) -> Span {
        let of_turn = match &self.turn {
            Some((id, span)) if *id == turn.id => span,
            _ => {
                self.step = None;
                let span = begin_turn(session, agent, turn);
                &self.turn.insert((turn.id, span)).1
            }
        };
        match &self.step {
            Some((step, span)) if *step == turn.step => span.clone(),
            _ => {
                let step = turn.step;
                let span = tracing::info_span!(parent: of_turn, "step", step);
                self.step.insert((step, span)).1.clone()
            }
        }
    }

    /// Ends the spans of a turn that is over.
    pub(super) fn keep_only(&mut self, decided: &Session) {
        let Some((id, span)) = &self.turn else { return };
        if decided.turn.as_ref().is_some_and(|turn| turn.id == *id) {
            return;
        }
        if let Some(last) = decided.last_turn.as_ref().filter(|last| last.id == *id) {
            ends_turn(span, &last.outcome);
        }
        self.step = None;
        self.turn = None;
    }
}

fn begin_turn(session: &Session, agent: Option<&Agent>, turn: &Turn) -> Span {
    let name = session.profile().map(|profile| profile.agent.as_str());
    let name = name.unwrap_or_default();
    let span = tracing::info_span!(
        parent: None, "turn", session = %session.key, turn = %turn.id,
        otel.name = format_args!("invoke_agent {name}"),
    );
    // Where nobody looks at spans, nothing is written down for them.
    if span.is_disabled() {
        return span;
    }
    trace::join(&span, turn.options.traceparent);
    describe(
        &span,
        [
            ("gen_ai.operation.name", "invoke_agent".into()),
            ("gen_ai.agent.name", name.to_owned().into()),
            ("gen_ai.conversation.id", session.key.to_string().into()),
        ],
    );
    if let Some(agent) = agent {
        names_model(&span, agent);
    }
    span
}

fn ends_turn(span: &Span, outcome: &TurnOutcome) {
    if span.is_disabled() {
        return;
    }
    match outcome {
        TurnOutcome::Completed { finish } => {
            describe(
                span,
                [("gen_ai.response.finish_reasons", finished(*finish))],
            );
        }
        TurnOutcome::Failed { code, message } => trace::failed(span, code, message.as_str()),
        TurnOutcome::Cancelled => trace::failed(span, "cancelled", "the turn was cancelled"),
        TurnOutcome::Superseded | TurnOutcome::Rejected => {}
    }
}

fn names_model(span: &Span, agent: &Agent) {
    describe(
        span,
        [
            ("gen_ai.provider.name", agent.provider_name.clone().into()),
            ("gen_ai.request.model", agent.settings.model.clone().into()),
        ],
    );
}

fn asks_model(span: &Span, session: &Session, agent: Option<&Agent>) {
    if span.is_disabled() {
        return;
    }
    let Some(agent) = agent else { return };
    let name = format!("chat {}", agent.settings.model);
    span.record("otel.name", name.as_str());
    names_model(span, agent);
    describe(
        span,
        [
            ("gen_ai.operation.name", "chat".into()),
            ("gen_ai.conversation.id", session.key.to_string().into()),
        ],
    );
}

fn runs_tool(span: &Span, session: &Session, id: CallId) {
    if span.is_disabled() {
        return;
    }
    let Some(call) = session.call(id) else { return };
    let name = format!("execute_tool {}", call.tool);
    span.record("otel.name", name.as_str());
    describe(
        span,
        [
            ("gen_ai.operation.name", "execute_tool".into()),
            ("gen_ai.tool.name", call.tool.clone().into()),
            ("gen_ai.tool.type", "function".into()),
            ("gen_ai.tool.call.id", id.to_string().into()),
            ("gen_ai.conversation.id", session.key.to_string().into()),
        ],
    );
}

/// What a span says of the reply that came.
pub(super) fn replied(span: &Span, reply: &ModelReply) {
    if span.is_disabled() {
        return;
    }
    let count = |tokens: u64| Value::I64(i64::try_from(tokens).unwrap_or(i64::MAX));
    let usage = &reply.usage;
    describe(
        span,
        [
            ("gen_ai.response.model", reply.model.clone().into()),
            ("gen_ai.response.finish_reasons", finished(reply.finish)),
            ("gen_ai.usage.input_tokens", count(usage.input_tokens)),
            ("gen_ai.usage.output_tokens", count(usage.output_tokens)),
            (
                "gen_ai.usage.cache_read.input_tokens",
                count(usage.cache_read_tokens),
            ),
            (
                "gen_ai.usage.cache_creation.input_tokens",
                count(usage.cache_write_tokens),
            ),
        ],
    );
}

/// What a span says of a reply that did not come.
pub(super) fn not_replied(span: &Span, failure: &ModelFailure) {
    trace::failed(span, &failure.code, failure.message.as_str());
}

/// What a span says of an attempt that ended.
pub(super) fn ran(span: &Span, outcome: &CallOutcome) {
    if span.is_disabled() {
        return;
    }
    match outcome {
        CallOutcome::Done(output) => {
            if let Stored::Inline(said) = &output.output
                && said.is_error()
            {
                trace::failed(span, "tool_error", "the tool answered with an error");
            }
        }
        // It goes on with the answer.
        CallOutcome::Asks(_) => {}
        CallOutcome::Retry { detail, .. } => trace::failed(span, "not_run", detail.as_str()),
        CallOutcome::Unknown { detail } => trace::failed(span, "unknown", detail.as_str()),
    }
}

fn finished(finish: Finish) -> Value {
    let word = match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_call",
        Finish::Length => "length",
        Finish::Refusal => "content_filter",
        Finish::Paused => "pause",
        Finish::Other => "other",
    };
    Value::Array(vec![opentelemetry::StringValue::from(word)].into())
}
