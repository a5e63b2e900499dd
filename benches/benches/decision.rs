//! One decision, one fold and one snapshot of a session with a long history: what a step costs
//! besides IO. `cargo bench -p steadfast-benches --bench decision`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use steadfast_core::command::{Command, CommandBody, MessageOptions, NewSession};
use steadfast_core::content::{
    CallInput, ContentPart, Finish, ModelReply, ProposedCall, ReplyPart, Stored, ToolOutput, Usage,
};
use steadfast_core::effect::Effect;
use steadfast_core::id::{
    AgentName, CommandId, Epoch, NodeId, SessionId, SessionKey, TenantId, Timestamp,
};
use steadfast_core::input::{
    Activate, CallOutcome, CallTriage, Gate, InDoubtPolicy, Input, Place, Policy, ReplayRule,
};
use steadfast_core::session::Session;
use steadfast_core::{apply, decide, outstanding};
use steadfast_protocol::record::RecordHash;
use steadfast_protocol::snapshot::{self, Snapshot};

/// Turns of the long session; each leaves about 1 KiB of text in the transcript.
const TURNS: usize = 3_000;
const ROUNDS: usize = 5_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let short = Talk::new()?.with_turns(1)?;
    let long = Talk::new()?.with_turns(TURNS)?;
    println!(
        "transcript: {:.1} MB in {} items, {} receipts",
        (long.session.transcript.tokens * 4) as f64 / 1e6,
        long.session.transcript.items.len(),
        long.session.receipts.len(),
    );
    for (name, talk) in [("1 turn", short), ("3000 turns", long)] {
        println!("{name}:");
        talk.measure()?;
    }
    Ok(())
}

struct Talk {
    session: Session,
    now: u64,
}

impl Talk {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let key = SessionKey {
            tenant: TenantId::new("t")?,
            session: SessionId::new("s")?,
        };
        let mut talk = Self {
            session: Session::new(key),
            now: 1,
        };
        talk.input(&Input::Activate(Activate {
            node: NodeId::new("n")?,
            epoch_min: Epoch(0),
            policy: Policy::default(),
            open_calls: Vec::new(),
        }));
        Ok(talk)
    }

    fn with_turns(mut self, turns: usize) -> Result<Self, Box<dyn std::error::Error>> {
        for turn in 0..turns {
            self.input(&message(&format!("m{turn}"))?);
            self.input(&self.reply(false));
        }
        self.input(&message("open")?);
        self.input(&self.reply(true));
        Ok(self)
    }

    fn input(&mut self, input: &Input) {
        self.now += 1;
        for event in decide(&self.session, input, Timestamp(self.now)).events {
            apply(&mut self.session, Timestamp(self.now), &event);
        }
    }

    /// A reply of about 1 KiB; with `tool`, it asks for one call.
    fn reply(&self, tool: bool) -> Input {
        let is_model = |effect: &Effect| matches!(effect, Effect::ModelCall { .. });
        let effect = outstanding(&self.session).into_iter().find(is_model);
        let effect = effect.unwrap_or(Effect::Notice { number: 0 });
        let call = ProposedCall {
            provider_call_id: "p".into(),
            tool: "lookup".into(),
            input: Stored::Inline(CallInput::Json(json!({ "order": "A-1" }))),
        };
        let text = ReplyPart::Text {
            text: "x".repeat(1_000),
            native: None,
        };
        let reply = ModelReply {
            wire: "bench".into(),
            model: "bench".into(),
            parts: vec![Stored::Inline(text)],
            calls: if tool { vec![call] } else { Vec::new() },
            finish: if tool {
                Finish::ToolCalls
            } else {
                Finish::Stop
            },
            usage: Usage {
                input_tokens: 100,
                output_tokens: 250,
                ..Usage::default()
            },
        };
        let triage = if tool { vec![triage()] } else { Vec::new() };
        Input::ModelReplied {
            effect,
            reply,
            triage,
            unfit: None,
        }
    }

    fn measure(&self) -> Result<(), Box<dyn std::error::Error>> {
        let turn = self.session.turn.as_ref().ok_or("no turn is open")?;
        let call = turn.calls.front().ok_or("no call is open")?.id;
        let outcome = CallOutcome::Done(ToolOutput::text("found").into());
        let finished = Input::CallFinished {
            call,
            attempt: 1,
            outcome,
        };
        let inputs = [
            ("a call's result", finished),
            ("a message", message("next")?),
        ];
        for (name, input) in inputs {
            let times = timed(|| {
                black_box(decide(
                    &self.session,
                    black_box(&input),
                    Timestamp(self.now),
                ));
            });
            print(&format!("decide about {name}"), &times);
        }
        let times = timed(|| {
            black_box(outstanding(black_box(&self.session)));
        });
        print("outstanding", &times);
        self.measure_snapshot()
    }

    fn measure_snapshot(&self) -> Result<(), Box<dyn std::error::Error>> {
        let snapshot = Snapshot {
            session: self.session.clone(),
            last_record: RecordHash::default(),
            tail: 1,
            receipts: Vec::new(),
        };
        let bytes = snapshot::encode(&snapshot)?;
        println!(
            "  snapshot with its transcript inline: {} bytes",
            bytes.len()
        );
        Ok(())
    }
}

fn message(id: &str) -> Result<Input, Box<dyn std::error::Error>> {
    let text = ContentPart::Text {
        text: "where is my order?".into(),
    };
    let new = NewSession {
        agent: AgentName::new("agent")?,
        metadata: serde_json::Value::Null,
        tags: Vec::new(),
    };
    let body = CommandBody::Submit {
        content: vec![Stored::Inline(text)],
        options: MessageOptions::default(),
        new: Some(new),
    };
    let command = Command {
        id: CommandId::new(id)?,
        body,
    };
    Ok(Input::Command {
        command,
        receipted: false,
    })
}

fn triage() -> CallTriage {
    CallTriage {
        gate: Gate::Open,
        rule: ReplayRule::Never,
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

fn timed(mut work: impl FnMut()) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

fn print(name: &str, sorted: &[Duration]) {
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize].as_nanos() as f64;
    println!(
        "  {name}: p50 {:.1} µs, p99 {:.1} µs",
        at(0.5) / 1e3,
        at(0.99) / 1e3
    );
}
