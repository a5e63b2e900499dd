//! A committed reply, made to agree with what was shown of it.

use serde_json::{Value, json};
use steadfast_core::content::{CallInput, ReplyPart, Stored};
use steadfast_core::event::RecordedCall;
use steadfast_core::id::{CallId, Epoch, Seq};
use steadfast_core::input::{Gate, Place as RunsAt};

use super::Fold;
use super::calls::{self, Call};
use super::shown::Place;
use crate::chat::chunk::{Chunk, harmless};
use crate::chat::{inline, wire_id::WireCall};

/// A part of the reply.
struct Part<'a> {
    place: Place,
    body: Body<'a>,
}

enum Body<'a> {
    Text(String),
    Call(&'a RecordedCall),
    Provider {
        name: &'a str,
        input: &'a Value,
        output: Option<&'a Value>,
    },
}

impl Fold {
    pub(super) fn reply(
        &mut self,
        seq: Seq,
        epoch: Epoch,
        parts: &[Stored<ReplyPart>],
        calls: &[RecordedCall],
    ) {
        let parts = in_order(parts, calls);
        let shown = self.forget_shown();
        let agrees = shown.len() <= parts.len()
            && shown.iter().zip(&parts).all(|(shown, part)| {
                shown.place == part.place
                    && match &part.body {
                        Body::Text(text) => text.starts_with(&shown.text),
                        Body::Call(_) | Body::Provider { .. } => true,
                    }
            });
        if !agrees {
            self.show(Chunk::ResetStep);
        }
        let shown = if agrees { shown } else { Vec::new() };
        let mut shown = shown.into_iter().map(|part| part.text);
        for part in parts {
            let shown = shown.next();
            match part.body {
                Body::Text(text) => self.text(part.place, &text, shown.as_deref()),
                Body::Call(call) => {
                    let Place::Call(index) = part.place else {
                        continue;
                    };
                    let id = CallId {
                        epoch,
                        reply: seq,
                        index,
                    };
                    self.call(id, call, shown.is_some());
                }
                Body::Provider {
                    name,
                    input,
                    output,
                } => self.provider_call(part.place, name, input, output),
            }
        }
    }

    fn text(&mut self, place: Place, text: &str, shown: Option<&str>) {
        if shown.is_none() {
            let start = self.start_of(place, "");
            self.show(start);
        }
        let rest = text.get(shown.map_or(0, str::len)..).unwrap_or_default();
        if !rest.is_empty() {
            let delta = self.delta_of(place, rest);
            self.show(delta);
        }
        if let Some(end) = self.end_of(place) {
            self.show(end);
        }
    }

    fn call(&mut self, id: CallId, recorded: &RecordedCall, shown: bool) {
        let wire = WireCall {
            turn: self.turn_id(),
            step: self.step,
            index: id.index,
        };
        let (input, malformed) = match recorded.input.inline() {
            Some(CallInput::Json(value)) => (harmless(value.clone()), None),
            Some(CallInput::Malformed { text, error }) => (json!(text), Some(error.clone())),
            None => (inline::missing(&recorded.input), None),
        };
        let refusal = match &recorded.triage.gate {
            Gate::Refused { output } => Some(calls::error_text(output)),
            Gate::Open | Gate::Approval { .. } => malformed,
        };
        let at_client = recorded.triage.place == RunsAt::Client;
        let mut call = Call {
            wire,
            tool: recorded.tool.clone(),
            input,
            metadata: json!({"callId": id}),
            at_client,
            state: calls::first_state(recorded),
            announced: false,
            refused: refusal.is_some(),
            approval: None,
        };
        if let Some(error_text) = refusal {
            self.show(Chunk::ToolInputError {
                tool_call_id: wire.to_string(),
                tool_name: call.tool.clone(),
                input: call.input.clone(),
                error_text,
                tool_metadata: call.metadata.clone(),
            });
        } else if !at_client {
            call.announced = true;
            self.show(call.announcement());
        } else {
            // The client's code would run at once when it is told that the input is there: it is
            // told only of a call that still waits for it.
            let waits = matches!(recorded.triage.gate, Gate::Open);
            call.announced = waits && (self.live || self.step <= self.has_steps);
            if call.announced {
                self.show(call.announcement());
            } else {
                self.show_quietly(&call, shown);
            }
        }
        self.calls.insert(id, call);
    }

    /// Shows a call without having the client run it.
    fn show_quietly(&mut self, call: &Call, shown: bool) {
        if shown {
            return;
        }
        self.show(Chunk::ToolInputStart {
            tool_call_id: call.wire.to_string(),
            tool_name: call.tool.clone(),
            tool_metadata: call.metadata.clone(),
        });
        self.show(Chunk::ToolInputDelta {
            tool_call_id: call.wire.to_string(),
            input_text_delta: call.input.to_string(),
        });
    }

    fn provider_call(&mut self, place: Place, name: &str, input: &Value, output: Option<&Value>) {
        let tool_call_id = self.part_id(place);
        self.show(Chunk::ToolInputAvailable {
            tool_call_id: tool_call_id.clone(),
            tool_name: name.into(),
            input: harmless(input.clone()),
            tool_metadata: Value::Null,
            provider_executed: true,
        });
        if let Some(output) = output {
            self.show(Chunk::ToolOutputAvailable {
                tool_call_id,
                output: harmless(output.clone()),
                preliminary: false,
                provider_executed: true,
            });
        }
    }
}

/// All that is shown of a reply, in order; a call that has no place among the parts comes last.
fn in_order<'a>(parts: &'a [Stored<ReplyPart>], calls: &'a [RecordedCall]) -> Vec<Part<'a>> {
    let mut order = Vec::new();
    let mut placed = vec![false; calls.len()];
    for (position, part) in parts.iter().enumerate() {
        let (place, body) = match part {
            Stored::Inline(ReplyPart::Text { text, .. }) => {
                (Place::Text(position), Body::Text(text.clone()))
            }
            Stored::Inline(ReplyPart::Reasoning { text, .. }) => {
                (Place::Reasoning(position), Body::Text(text.clone()))
            }
            Stored::Inline(ReplyPart::Call { index, .. }) => {
                let place = usize::from(*index);
                let (Some(call), Some(placed)) = (calls.get(place), placed.get_mut(place)) else {
                    continue;
                };
                if std::mem::replace(placed, true) {
                    continue;
                }
                (Place::Call(*index), Body::Call(call))
            }
            Stored::Inline(ReplyPart::ProviderTool {
                name,
                input,
                output,
                ..
            }) => (
                Place::Provider(position),
                Body::Provider {
                    name,
                    input,
                    output: output.as_ref(),
                },
            ),
            Stored::Inline(ReplyPart::Opaque { .. }) => continue,
            Stored::Blob(blob) => (
                Place::Text(position),
                Body::Text(format!(
                    "[{} bytes, too large to be shown]",
                    blob.size_bytes
                )),
            ),
        };
        if !matches!(&body, Body::Text(text) if text.is_empty()) {
            order.push(Part { place, body });
        }
    }
    let rest = (0_u16..).zip(calls).zip(placed);
    order.extend(
        rest.filter(|(_, placed)| !placed)
            .map(|((index, call), _)| Part {
                place: Place::Call(index),
                body: Body::Call(call),
            }),
    );
    order
}
