//! A session's history made by the state machine itself, without a runtime: fast to make, and the
//! same as if its turns had been run.

use anyhow::{Context, Result};
use serde_json::json;
use steadfast_core::content::{CallInput, ProposedCall, Stored, ToolOutput};
use steadfast_core::effect::Effect;
use steadfast_core::id::{Epoch, NodeId, SessionKey, Timestamp};
use steadfast_core::input::{
    Activate, CallOutcome, CallTriage, Gate, InDoubtPolicy, Input, Place, Policy, ReplayRule,
};
use steadfast_core::session::Session;
use steadfast_core::{apply, decide, outstanding};
use steadfast_protocol::record::{Cause, Entry};

use crate::long_turn::reply;
use crate::world::message;

/// A session in the making.
pub(crate) struct Talk {
    pub(crate) session: Session,
    /// What was decided and is not written yet.
    pub(crate) entries: Vec<Entry>,
}

impl Talk {
    /// A new session, owned by `node`.
    pub(crate) fn new(key: SessionKey, node: &NodeId) -> Self {
        let mut talk = Self {
            session: Session::new(key),
            entries: Vec::new(),
        };
        let activate = Activate {
            node: node.clone(),
            epoch_min: Epoch(0),
            policy: Policy::default(),
            open_calls: Vec::new(),
        };
        talk.input(&Input::Activate(activate), Cause::Activate);
        talk
    }

    /// One turn: a model call, one tool call, a second model call.
    pub(crate) fn turn(&mut self, id: &str) -> Result<()> {
        let command = message(id, "Where is my order?")?;
        let cause = Cause::Command {
            id: command.id.clone(),
        };
        let receipted = false;
        self.input(&Input::Command { command, receipted }, cause);
        let call = ProposedCall {
            provider_call_id: "p".into(),
            tool: "get_weather".into(),
            input: Stored::Inline(CallInput::Json(json!({ "city": "Paris" }))),
        };
        self.replied("I look.", vec![call])?;
        let turn = self.session.turn.as_ref().context("no turn is open")?;
        let call = turn.calls.front().context("no call is open")?;
        let finished = Input::CallFinished {
            call: call.id,
            attempt: 1,
            outcome: CallOutcome::Done(ToolOutput::text("It is on its way.").into()),
        };
        let effect = self.effect()?;
        self.input(&finished, Cause::Effect { effect });
        self.replied(&"It will be there tomorrow. ".repeat(8), Vec::new())
    }

    /// Its owner lets go.
    pub(crate) fn release(&mut self) {
        self.input(&Input::Release, Cause::Release);
    }

    fn replied(&mut self, text: &str, calls: Vec<ProposedCall>) -> Result<()> {
        let effect = self.effect()?;
        let triage = calls.iter().map(|_| triage()).collect();
        let reply = reply(text, calls);
        let input = Input::ModelReplied {
            effect,
            reply,
            triage,
            unfit: None,
        };
        self.input(&input, Cause::Effect { effect });
        Ok(())
    }

    fn effect(&self) -> Result<Effect> {
        outstanding(&self.session)
            .into_iter()
            .next()
            .context("nothing is to be done")
    }

    fn input(&mut self, input: &Input, cause: Cause) {
        let at = Timestamp(self.session.at.0 + 1);
        let events = decide(&self.session, input, at).events;
        for event in &events {
            apply(&mut self.session, at, event);
        }
        self.entries.push(Entry { cause, at, events });
    }
}

fn triage() -> CallTriage {
    CallTriage {
        gate: Gate::Open,
        rule: ReplayRule::Safe,
        place: Place::Local,
        in_doubt: InDoubtPolicy::TellModel,
        has_check: false,
        exclusive: false,
        deadline_ms: 600_000,
        attempts_max: 1,
        slot: true,
        agent: None,
    }
}
