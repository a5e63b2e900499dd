//! A turn as chunks: a pure fold of its events, and of what is shown of its open step before that
//! is committed.
//!
//! What the events say alone is the message. What is shown live is made to agree with it: when a
//! step's reply is committed and says something else than was shown, the step is reset and shown
//! again. So whoever comes later, and reads only events, gets the same message.

mod calls;
mod reply;
mod shown;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steadfast_core::command::WhenBusy;
use steadfast_core::content::{Content, Finish, Usage};
use steadfast_core::event::{Event, TurnOutcome, Verdict};
use steadfast_core::id::{CallId, Epoch, MessageId, Seq, Timestamp, TurnId};

use self::calls::Call;
pub(super) use self::calls::outcome;
use self::shown::Shown;
use super::chunk::Chunk;
use super::{content, wire_id};

/// A turn so far.
#[derive(Debug)]
pub(crate) struct Fold {
    turn: Turn,
    /// The client has these steps already: of the last of them only answers are told.
    has_steps: u32,
    phase: Phase,
    /// All that was committed before the client came is folded: what comes now is new.
    live: bool,
    step: u32,
    /// The open step's reply is committed.
    replied: bool,
    /// A `start-step` was given without its `finish-step`.
    in_step: bool,
    shown: Shown,
    calls: BTreeMap<CallId, Call>,
    steers: BTreeMap<TurnId, (MessageId, Content)>,
    usage: Usage,
    model: Option<String>,
    out: Vec<Chunk>,
}

/// Which turn is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This one.
    Known(TurnId),
    /// The one of a message that is not decided yet.
    Of(MessageId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Queued,
    Running,
    Ended,
}

impl Fold {
    /// Of a turn of which the client has so many steps.
    pub(crate) fn new(turn: Turn, has_steps: u32) -> Self {
        Self {
            turn,
            has_steps,
            phase: Phase::Queued,
            live: false,
            step: 0,
            replied: false,
            in_step: false,
            shown: Shown::default(),
            calls: BTreeMap::new(),
            steers: BTreeMap::new(),
            usage: Usage::default(),
            model: None,
            out: Vec::new(),
        }
    }

    /// The chunks since they were last taken.
    pub(crate) fn take(&mut self) -> Vec<Chunk> {
        std::mem::take(&mut self.out)
    }

    /// Whether the terminal chunk was given.
    pub(crate) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Folds one event.
    pub(crate) fn event(&mut self, seq: Seq, at: Timestamp, epoch: Epoch, event: &Event) {
        if self.phase == Phase::Ended {
            return;
        }
        match event {
            Event::TurnQueued {
                message,
                content,
                options,
            } => {
                if self.turn == Turn::Of(message.clone()) {
                    self.turn = Turn::Known(TurnId(seq));
                }
                if options.when_busy == WhenBusy::Steer {
                    let steer = (message.clone(), content.clone());
                    self.steers.insert(TurnId(seq), steer);
                }
            }
            Event::TurnStarted { turn } if self.is(*turn) => self.started(at),
            Event::MessageJoined { queued, .. } if self.is(*queued) => {
                self.abort("the message joined the turn that ran");
            }
            Event::MessageJoined { queued, into } if self.is(*into) => self.joined(*queued),
            Event::TurnEnded { turn, outcome } if self.is(*turn) => self.ended(outcome),
            Event::TurnEnded { turn, .. } => {
                self.steers.remove(turn);
            }
            Event::CommandSettled {
                command,
                verdict: Verdict::Rejected { reason },
                ..
            } if self.turn == Turn::Of(command.clone()) => {
                self.fail(format!("the message was refused: {}", reason.code()));
            }
            _ if self.phase == Phase::Running => self.running(seq, epoch, event),
            _ => {}
        }
    }

    fn running(&mut self, seq: Seq, epoch: Epoch, event: &Event) {
        match event {
            Event::StepStarted { turn, step } if self.is(*turn) => {
                self.finish_step();
                self.step = *step;
                self.replied = false;
                self.shown = Shown::default();
                self.show(Chunk::StartStep);
                self.in_step = true;
            }
            // Another owner, or another attempt, asks the model anew.
            Event::Activated { epoch, .. } => {
                self.withdraw();
                self.shown.owned_from(*epoch);
            }
            Event::ModelCallFailed { .. } | Event::ModelCallRetried { .. } => self.withdraw(),
            Event::ModelReplied {
                turn,
                parts,
                calls,
                usage,
                model,
                ..
            } if self.is(*turn) => {
                self.usage.add(usage);
                self.model = Some(model.clone());
                self.replied = true;
                self.reply(seq, epoch, parts, calls);
            }
            _ => self.call_event(event),
        }
    }

    /// All that is committed was given: what comes now is new.
    pub(crate) fn caught_up(&mut self) {
        if !self.live {
            self.live = true;
            self.announce_open();
        }
    }

    /// Whether nothing more comes until people answer.
    pub(crate) fn waits_for_people(&self) -> bool {
        self.phase == Phase::Running && self.replied && self.people_owe_all()
    }

    /// Ends the stream, but not the turn: people are asked.
    pub(crate) fn pause(&mut self) {
        self.finish_step();
        self.finish("tool-calls");
    }

    /// Ends the stream by an error.
    pub(crate) fn fail(&mut self, error: impl Into<String>) {
        if self.phase == Phase::Ended {
            return;
        }
        self.phase = Phase::Ended;
        let error_text = error.into();
        self.out.push(Chunk::Error { error_text });
    }

    fn is(&self, turn: TurnId) -> bool {
        self.turn == Turn::Known(turn)
    }

    fn turn_id(&self) -> TurnId {
        match self.turn {
            Turn::Known(turn) => turn,
            Turn::Of(_) => TurnId(Seq(0)),
        }
    }

    fn started(&mut self, at: Timestamp) {
        self.phase = Phase::Running;
        let turn = self.turn_id();
        self.out.push(Chunk::Start {
            message_id: wire_id::message(turn),
            message_metadata: json!({"turnId": turn, "createdAt": at}),
        });
    }

    fn joined(&mut self, queued: TurnId) {
        let Some((message, content)) = self.steers.remove(&queued) else {
            return;
        };
        self.finish_step();
        if self.step >= self.has_steps {
            self.out.push(Chunk::SteeringMessage {
                id: message.to_string(),
                parts: content::shown(&content),
            });
        }
    }

    fn ended(&mut self, outcome: &TurnOutcome) {
        match outcome {
            TurnOutcome::Completed { finish } => {
                self.finish_step();
                self.finish(reason(*finish));
            }
            TurnOutcome::Failed { message, .. } => {
                self.withdraw();
                self.finish_step();
                if self.phase == Phase::Running {
                    let mut message_metadata = self.metadata();
                    message_metadata["error"] = json!(message);
                    self.out.push(Chunk::MessageMetadata { message_metadata });
                }
                self.fail(message);
            }
            TurnOutcome::Cancelled => self.abort("cancelled"),
            TurnOutcome::Superseded => self.abort("another message took its place"),
            TurnOutcome::Rejected => self.abort("rejected"),
        }
    }

    fn abort(&mut self, reason: &str) {
        self.break_off();
        self.finish_step();
        if self.calls.values().any(|call| call.wire.step == self.step) {
            // A message that ends with answered calls would be sent back by a client that sends
            // answers by itself.
            self.out.extend([Chunk::StartStep, Chunk::FinishStep]);
        }
        if self.phase == Phase::Running {
            // Also because a client keeps a step mark only with the next thing that it keeps.
            let message_metadata = self.metadata();
            self.out.push(Chunk::MessageMetadata { message_metadata });
        }
        self.phase = Phase::Ended;
        let reason = reason.into();
        self.out.push(Chunk::Abort { reason });
    }

    fn finish(&mut self, finish_reason: &'static str) {
        self.phase = Phase::Ended;
        let message_metadata = self.metadata();
        self.out.push(Chunk::Finish {
            finish_reason,
            message_metadata,
        });
    }

    fn metadata(&self) -> Value {
        let usage = &self.usage;
        json!({
            "model": self.model,
            "usage": {
                "inputTokens": usage.input_tokens,
                "outputTokens": usage.output_tokens,
                "totalTokens": usage.total_tokens(),
                "reasoningTokens": usage.reasoning_tokens,
                "cachedInputTokens": usage.cache_read_tokens,
            },
        })
    }

    /// Gives a chunk of the open step, unless the client has it.
    fn show(&mut self, chunk: Chunk) {
        if self.step > self.has_steps {
            self.out.push(chunk);
        }
    }

    fn finish_step(&mut self) {
        if self.in_step {
            self.in_step = false;
            self.show(Chunk::FinishStep);
        }
    }
}

fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool-calls",
        Finish::Length => "length",
        Finish::Refusal => "content-filter",
        Finish::Paused | Finish::Other => "other",
    }
}

#[cfg(test)]
mod tests;
