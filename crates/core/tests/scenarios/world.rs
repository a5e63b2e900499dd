//! One session under test, with a clock that only moves when told.

use crate::print::{line, shown, verdict};
use expect_test::Expect;
use serde_json::Value;
use steadfast_core::command::{
    Command, CommandBody, MessageOptions, NewSession, Settler, WhenBusy,
};
use steadfast_core::content::*;
use steadfast_core::effect::Effect;
use steadfast_core::id::*;
use steadfast_core::input::*;
use steadfast_core::session::Session;
use steadfast_core::{Answer, apply, decide, next_deadline, outstanding};

pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) now: u64,
    pub(crate) policy: Policy,
    /// Changed rules, as a node's configuration of today has them.
    pub(crate) rules_today: Vec<(&'static str, Option<RuleToday>)>,
    log: Vec<String>,
}

pub(crate) fn command_id(text: &str) -> CommandId {
    CommandId::new(text).unwrap()
}

pub(crate) fn new_session() -> NewSession {
    let agent = AgentName::new("agent").unwrap();
    NewSession {
        agent,
        metadata: Value::Null,
        tags: Vec::new(),
    }
}

pub(crate) fn options(when_busy: WhenBusy) -> MessageOptions {
    MessageOptions {
        when_busy,
        ..MessageOptions::default()
    }
}

/// What the runtime finds out about a tool, by the words in its name.
pub(crate) fn triage(tool: &str) -> CallTriage {
    let has = |word: &str| tool.split('_').any(|part| part == word);
    CallTriage {
        gate: if has("ask") {
            Gate::Approval {
                expires_in_ms: has("soon").then_some(60_000),
            }
        } else if has("bad") {
            Gate::Refused {
                output: ToolOutput::error("no such tool"),
            }
        } else {
            Gate::Open
        },
        rule: if has("safe") {
            ReplayRule::Safe
        } else if has("keyed") {
            ReplayRule::Keyed
        } else {
            ReplayRule::Never
        },
        place: if has("client") {
            Place::Client
        } else if has("remote") {
            Place::Remote
        } else {
            Place::Local
        },
        in_doubt: if has("wait") {
            InDoubtPolicy::Wait
        } else {
            InDoubtPolicy::TellModel
        },
        has_check: has("check"),
        exclusive: has("exclusive"),
        deadline_ms: 600_000,
        attempts_max: 3,
        slot: !has("slotless"),
        agent: has("agent").then(|| AgentName::new("other").unwrap()),
    }
}

impl World {
    /// A session that a node owns and that holds no message yet.
    pub(crate) fn new() -> Self {
        Self::with_policy(Policy::default())
    }

    pub(crate) fn with_policy(policy: Policy) -> Self {
        let key = SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new("s").unwrap(),
        };
        let (session, log, rules_today) = (Session::new(key), Vec::new(), Vec::new());
        let mut world = Self {
            session,
            now: 1_000,
            policy,
            rules_today,
            log,
        };
        world.activate();
        world.log.clear();
        world
    }

    pub(crate) fn input(&mut self, input: &Input) -> Option<Answer> {
        let decision = decide(&self.session, input, Timestamp(self.now));
        let again = decide(&self.session, input, Timestamp(self.now));
        assert_eq!(decision, again, "a decision is a function");
        for event in &decision.events {
            apply(&mut self.session, Timestamp(self.now), event);
            self.log
                .push(format!("{} {}", self.session.seq, line(event)));
        }
        if let Some(answer) = decision.answer {
            let repeated = if answer.repeated { " (repeated)" } else { "" };
            self.log
                .push(format!("=> {}{repeated}", verdict(answer.verdict)));
        }
        decision.answer
    }

    /// A node takes the session over, as if the last owner had died unless it released.
    pub(crate) fn activate(&mut self) {
        let calls = self.session.turn.iter().flat_map(|turn| turn.calls.iter());
        let open_calls = calls
            .filter_map(|call| {
                let recorded = triage(&call.tool);
                let recorded = RuleToday {
                    rule: recorded.rule,
                    has_check: recorded.has_check,
                };
                let changed = self.rules_today.iter().find(|(tool, _)| *tool == call.tool);
                let today = changed.map_or(Some(recorded), |(_, today)| *today)?;
                Some((call.id, today))
            })
            .collect();
        let activate = Activate {
            node: NodeId::new("n").unwrap(),
            epoch_min: Epoch(0),
            policy: self.policy.clone(),
            open_calls,
        };
        self.input(&Input::Activate(activate));
    }

    pub(crate) fn release(&mut self) {
        self.input(&Input::Release);
    }

    pub(crate) fn command(&mut self, id: &str, body: CommandBody) -> Option<Answer> {
        let command = Command {
            id: command_id(id),
            body,
        };
        self.input(&Input::Command {
            command,
            receipted: false,
        })
    }

    pub(crate) fn mail(&mut self, id: &str, body: CommandBody) -> Option<Answer> {
        let command = Command {
            id: command_id(id),
            body,
        };
        self.input(&Input::Command {
            command,
            receipted: true,
        })
    }

    pub(crate) fn say(&mut self, id: &str) -> Option<Answer> {
        self.say_with(id, MessageOptions::default())
    }

    pub(crate) fn say_with(&mut self, id: &str, options: MessageOptions) -> Option<Answer> {
        self.command(id, submit(id, options))
    }

    /// The running model call asks for these tools; none: it answers.
    pub(crate) fn reply(&mut self, tools: &[&str]) {
        let effect = self.model_call();
        let (reply, triage) = model_reply(tools);
        self.input(&Input::ModelReplied {
            effect,
            reply,
            triage,
            unfit: None,
        });
    }

    /// The running model call answers with what does not fit the schema asked for.
    pub(crate) fn answer_unfit(&mut self, detail: &str, finish: Finish) {
        let effect = self.model_call();
        let (mut reply, triage) = model_reply(&[]);
        reply.finish = finish;
        self.input(&Input::ModelReplied {
            effect,
            reply,
            triage,
            unfit: Some(detail.to_owned()),
        });
    }

    /// The running model call's reply pauses within a tool of its provider.
    pub(crate) fn pause(&mut self) {
        let effect = self.model_call();
        let (mut reply, triage) = model_reply(&[]);
        reply.finish = Finish::Paused;
        self.input(&Input::ModelReplied {
            effect,
            reply,
            triage,
            unfit: None,
        });
    }

    pub(crate) fn fail_model(&mut self, class: FailureClass) {
        let effect = self.model_call();
        let (code, message) = ("overloaded".to_owned(), "it is overloaded".to_owned());
        let failure = ModelFailure {
            class,
            code,
            message,
        };
        self.input(&Input::ModelFailed { effect, failure });
    }

    pub(crate) fn model_call(&self) -> Effect {
        let is_model = |effect: &&Effect| matches!(effect, Effect::ModelCall { .. });
        *outstanding(&self.session)
            .iter()
            .find(is_model)
            .expect("a model call runs")
    }

    /// The open call of this tool.
    pub(crate) fn call(&self, tool: &str) -> CallId {
        let turn = self.session.turn.as_ref().expect("a turn is open");
        turn.calls
            .iter()
            .find(|call| call.tool == tool)
            .expect("the call is open")
            .id
    }

    pub(crate) fn finish(&mut self, tool: &str, attempt: u32, outcome: CallOutcome) {
        let call = self.call(tool);
        self.input(&Input::CallFinished {
            call,
            attempt,
            outcome,
        });
    }

    pub(crate) fn done(&mut self, tool: &str) {
        self.finish(tool, 1, done());
    }

    pub(crate) fn settle(&mut self, id: &str, call: CallId, by: Settler) -> Option<Answer> {
        let output = ToolOutput::text("from outside").into();
        self.command(id, CommandBody::SettleCall { call, output, by })
    }

    pub(crate) fn decide_approval(
        &mut self,
        id: &str,
        call: CallId,
        approved: bool,
    ) -> Option<Answer> {
        let body = CommandBody::DecideApproval {
            approval: ApprovalId(call),
            approved,
            reason: Some("because".into()),
            triage: Some(CallTriage {
                gate: Gate::Open,
                ..triage("never")
            }),
        };
        self.command(id, body)
    }

    /// Goes to the next deadline.
    pub(crate) fn tick(&mut self) {
        let at = next_deadline(&self.session).expect("a deadline comes");
        self.now = self.now.max(at.0);
        self.input(&Input::TimerFired);
        let next = next_deadline(&self.session);
        assert!(
            next.is_none_or(|next| next.0 > self.now),
            "the deadline stayed"
        );
    }

    /// Forgets what was printed so far.
    pub(crate) fn skip(&mut self) {
        self.log.clear();
    }

    /// Compares what was printed with what is expected, with what should be running at the end.
    pub(crate) fn check(&self, expected: Expect) {
        let running: Vec<String> = outstanding(&self.session)
            .iter()
            .map(ToString::to_string)
            .collect();
        let log = self.log.join("\n");
        expected.assert_eq(&format!("{log}\nrunning: [{}]\n", running.join(", ")));
    }

    /// What the model is shown, one line for each item.
    pub(crate) fn check_transcript(&self, expected: Expect) {
        use steadfast_core::transcript::ItemBody;
        let line = |body: &ItemBody| match body {
            ItemBody::User { message, .. } => format!("user {message}"),
            ItemBody::Reply { calls, .. } => {
                let tools: Vec<_> = calls.iter().map(|call| call.tool.as_str()).collect();
                format!("reply {tools:?}")
            }
            ItemBody::Results { results, .. } => {
                let results = results.iter().map(|result| {
                    format!(
                        "{} {:?}: {}",
                        result.tool,
                        result.settlement,
                        shown(&result.output)
                    )
                });
                format!("results\n  {}", results.collect::<Vec<_>>().join("\n  "))
            }
            ItemBody::Note { text } => format!("note {text}"),
            ItemBody::Summary { .. } => "summary".to_owned(),
            ItemBody::Packed { .. } => "packed".to_owned(),
        };
        let items = self
            .session
            .transcript
            .items
            .iter()
            .map(|item| line(&item.body) + "\n");
        expected.assert_eq(&items.collect::<String>());
    }
}

/// A session whose turn has just asked for these tools.
pub(crate) fn with_calls(tools: &[&str]) -> World {
    let mut world = World::new();
    world.say("m1");
    world.reply(tools);
    world.skip();
    world
}

pub(crate) fn submit(text: &str, options: MessageOptions) -> CommandBody {
    let content = vec![Stored::Inline(ContentPart::Text {
        text: text.to_owned(),
    })];
    CommandBody::Submit {
        content,
        options,
        new: Some(new_session()),
    }
}

pub(crate) fn done() -> CallOutcome {
    CallOutcome::Done(ToolOutput::text("done").into())
}

pub(crate) fn unknown() -> CallOutcome {
    CallOutcome::Unknown {
        detail: "timeout".into(),
    }
}

pub(crate) fn model_reply(tools: &[&str]) -> (ModelReply, Vec<CallTriage>) {
    let call = |(index, tool): (usize, &&str)| ProposedCall {
        provider_call_id: format!("p{index}"),
        tool: (*tool).to_owned(),
        input: Stored::Inline(CallInput::Json(serde_json::json!({}))),
    };
    let reply = ModelReply {
        wire: "scripted".into(),
        model: "m".into(),
        parts: vec![Stored::Inline(ReplyPart::Text {
            text: "hello".into(),
            native: None,
        })],
        calls: tools.iter().enumerate().map(call).collect(),
        finish: if tools.is_empty() {
            Finish::Stop
        } else {
            Finish::ToolCalls
        },
        usage: Usage {
            input_tokens: 10,
            output_tokens: 5,
            ..Usage::default()
        },
    };
    (reply, tools.iter().map(|tool| triage(tool)).collect())
}
