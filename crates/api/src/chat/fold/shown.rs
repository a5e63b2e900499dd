//! What of the open step was shown before it is committed.

use steadfast_core::id::Epoch;
use steadfast_protocol::live::{Delta, LiveFrame};

use super::{Fold, Phase, wire_id::WireCall};
use crate::chat::chunk::Chunk;

/// The newest attempt, as far as it was shown.
#[derive(Debug, Default)]
pub(super) struct Shown {
    attempt: Option<(Epoch, u32)>,
    /// Number of the next frame; `None`: one was missed, and nothing more is shown until the reply
    /// is committed.
    next: Option<u64>,
    pub(super) parts: Vec<ShownPart>,
}

impl Shown {
    /// Frames of earlier owners are void.
    pub(super) fn owned_from(&mut self, epoch: Epoch) {
        self.attempt = self.attempt.max(Some((epoch, 0)));
    }
}

/// A part that was begun.
#[derive(Debug)]
pub(super) struct ShownPart {
    pub(super) place: Place,
    pub(super) text: String,
}

/// Which part of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Text(usize),
    Reasoning(usize),
    Call(u16),
    Provider(usize),
}

impl Fold {
    /// Shows a live frame.
    pub(crate) fn frame(&mut self, frame: &LiveFrame) {
        let of_step = self.phase == Phase::Running
            && self.is(frame.turn)
            && frame.step == self.step
            && self.live;
        if !of_step {
            return;
        }
        if let Delta::ToolProgress { call, output } = &frame.delta {
            return self.progress(*call, output);
        }
        if self.replied {
            return;
        }
        let attempt = Some((frame.epoch, frame.attempt));
        if attempt < self.shown.attempt {
            return;
        }
        if attempt != self.shown.attempt {
            self.withdraw();
            self.shown.attempt = attempt;
            self.shown.next = Some(0);
        }
        if self.shown.next != Some(frame.n) {
            self.shown.next = None;
            return;
        }
        self.shown.next = frame.n.checked_add(1);
        match &frame.delta {
            Delta::Text { part, text } => self.piece(Place::Text(*part as usize), "", text),
            Delta::Reasoning { part, text } => {
                self.piece(Place::Reasoning(*part as usize), "", text);
            }
            Delta::ToolInput { index, tool, text } => self.piece(Place::Call(*index), tool, text),
            Delta::Withdrawn => self.withdraw(),
            Delta::ToolProgress { .. } => {}
        }
    }

    fn piece(&mut self, place: Place, tool: &str, text: &str) {
        let known = self.shown.parts.iter_mut().find(|part| part.place == place);
        match known {
            Some(part) => part.text.push_str(text),
            None if text.is_empty() && !matches!(place, Place::Call(_)) => return,
            None => {
                let text = text.to_owned();
                self.shown.parts.push(ShownPart { place, text });
                let start = self.start_of(place, tool);
                self.show(start);
            }
        }
        if !text.is_empty() {
            let delta = self.delta_of(place, text);
            self.show(delta);
        }
    }

    pub(super) fn start_of(&self, place: Place, tool: &str) -> Chunk {
        let id = self.part_id(place);
        match place {
            Place::Text(_) => Chunk::TextStart { id },
            Place::Reasoning(_) => Chunk::ReasoningStart { id },
            Place::Call(_) | Place::Provider(_) => Chunk::ToolInputStart {
                tool_call_id: id,
                tool_name: tool.into(),
                tool_metadata: serde_json::Value::Null,
            },
        }
    }

    pub(super) fn delta_of(&self, place: Place, text: &str) -> Chunk {
        let id = self.part_id(place);
        let delta = text.to_owned();
        match place {
            Place::Text(_) => Chunk::TextDelta { id, delta },
            Place::Reasoning(_) => Chunk::ReasoningDelta { id, delta },
            Place::Call(_) | Place::Provider(_) => Chunk::ToolInputDelta {
                tool_call_id: id,
                input_text_delta: delta,
            },
        }
    }

    /// The end of a text; calls have none of their own.
    pub(super) fn end_of(&self, place: Place) -> Option<Chunk> {
        let id = self.part_id(place);
        match place {
            Place::Text(_) => Some(Chunk::TextEnd { id }),
            Place::Reasoning(_) => Some(Chunk::ReasoningEnd { id }),
            Place::Call(_) | Place::Provider(_) => None,
        }
    }

    pub(super) fn part_id(&self, place: Place) -> String {
        let (turn, step) = (self.turn_id(), self.step);
        match place {
            Place::Text(part) | Place::Reasoning(part) => format!("{step}-{part}"),
            Place::Call(index) => WireCall { turn, step, index }.to_string(),
            Place::Provider(part) => super::wire_id::provider_call(turn, step, part),
        }
    }

    /// Takes back what was shown of a step that is not committed; of that attempt nothing more is.
    pub(super) fn withdraw(&mut self) {
        self.shown.next = None;
        if !self.shown.parts.is_empty() {
            self.shown.parts.clear();
            self.show(Chunk::ResetStep);
        }
    }

    /// Closes what was shown of a step that will never be committed.
    pub(super) fn break_off(&mut self) {
        for part in std::mem::take(&mut self.shown.parts) {
            let end = self.end_of(part.place);
            self.out.extend(end);
            if let Place::Call(_) = part.place {
                // Its arguments are not complete, so it is no call.
                self.out.push(Chunk::ToolOutputError {
                    tool_call_id: self.part_id(part.place),
                    error_text: "The call was not made: the turn ended first.".into(),
                });
            }
        }
    }

    pub(super) fn forget_shown(&mut self) -> Vec<ShownPart> {
        std::mem::take(&mut self.shown.parts)
    }
}
