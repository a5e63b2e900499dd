//! A turn as it is told to a client, and the events that it is made of.

use std::fmt::Write;

use steadfast_core::content::{CallOutput, ToolOutput};
use steadfast_core::event::Settlement;
use steadfast_core::id::ApprovalId;
use steadfast_core::input::Gate;
use steadfast_protocol::live::{Delta, LiveFrame};

use crate::chat::fold::*;
use crate::event_samples::{self, queued, started, turn};

/// A story about turn 1, told to a client.
pub(super) struct Story {
    pub(super) fold: Fold,
    pub(super) seq: u64,
    pub(super) epoch: u64,
    pub(super) n: u64,
}

impl Story {
    pub(super) fn new(has_steps: u32) -> Self {
        Self {
            fold: Fold::new(Turn::Known(TurnId(Seq(1))), has_steps),
            seq: 0,
            epoch: 1,
            n: 0,
        }
    }

    /// The same for a client that is there from the start.
    pub(super) fn live() -> Self {
        let mut story = Self::new(0);
        story.fold.caught_up();
        story
    }

    pub(super) fn events(&mut self, events: &[Event]) -> &mut Self {
        for event in events {
            self.seq += 1;
            if let Event::Activated { epoch, .. } = event {
                self.epoch = epoch.0;
            }
            let (seq, at) = (Seq(self.seq), Timestamp(self.seq));
            self.fold.event(seq, at, Epoch(self.epoch), event);
        }
        self
    }

    pub(super) fn delta(&mut self, attempt: u32, delta: Delta) -> &mut Self {
        self.frame(self.n, attempt, delta);
        self.n += 1;
        self
    }

    pub(super) fn frame(&mut self, n: u64, attempt: u32, delta: Delta) -> &mut Self {
        self.fold.frame(&LiveFrame {
            epoch: Epoch(self.epoch),
            turn: TurnId(Seq(1)),
            step: 1,
            attempt,
            n,
            delta,
        });
        self
    }

    /// What was told since the last time, one line each.
    pub(super) fn told(&mut self) -> String {
        let mut lines = String::new();
        for chunk in self.fold.take() {
            let mut json = serde_json::to_value(chunk).unwrap();
            let map = json.as_object_mut().unwrap();
            let kind = map.remove("type").unwrap();
            map.remove("messageMetadata");
            let rest = if map.is_empty() {
                String::new()
            } else {
                json.to_string()
            };
            writeln!(lines, "{} {rest}", kind.as_str().unwrap()).unwrap();
        }
        lines
            .lines()
            .map(str::trim_end)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Events 1 to 3.
pub(super) fn begin() -> [Event; 3] {
    [queued("m1", "hi"), started(1), step(1)]
}

pub(super) fn step(step: u32) -> Event {
    Event::StepStarted {
        turn: turn(1),
        step,
    }
}

pub(super) const ASKS: Gate = Gate::Approval {
    expires_in_ms: None,
};

/// A call of the reply that is event 4.
pub(super) fn call(index: u16) -> CallId {
    event_samples::call(4, index)
}

pub(super) fn requested(index: u16) -> Event {
    Event::ApprovalRequested {
        approval: ApprovalId(call(index)),
        input_digest: steadfast_core::command::Digest(0),
        expires_at: None,
    }
}

pub(super) fn decided(index: u16, approved: bool) -> Event {
    Event::ApprovalDecided {
        approval: ApprovalId(call(index)),
        approved,
        reason: None,
        triage: None,
    }
}

pub(super) fn settled(index: u16, settlement: Settlement, output: ToolOutput) -> Event {
    Event::CallSettled {
        call: call(index),
        settlement,
        output: CallOutput::from(output),
    }
}

pub(super) fn ended(outcome: TurnOutcome) -> Event {
    Event::TurnEnded {
        turn: turn(1),
        outcome,
    }
}

pub(super) fn completed() -> Event {
    ended(TurnOutcome::Completed {
        finish: Finish::Stop,
    })
}

pub(super) fn text(text: &str) -> Delta {
    Delta::Text {
        part: 0,
        text: text.into(),
    }
}
