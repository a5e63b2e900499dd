//! Replies.

use serde_json::{Map, Value, json};
use steadfast_core::content::{Finish, ModelReply, ReplyPart, Usage};
use steadfast_core::input::ModelFailure;
use steadfast_protocol::live::Delta;

use crate::failure::{self, ErrorReport, broken_stream};
use crate::json::{count_of, list_of, push_text, text_of};
use crate::openai_chat::tool_calls::PartialCalls;
use crate::openai_chat::usage::usage;
use crate::reply::Draft;
use crate::wire::{Event, ended_early, parse};

/// Fields in which servers give reasoning.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Reads the events of one reply.
#[derive(Debug)]
pub struct Decoder {
    label: String,
    model: String,
    /// Parts in the order in which they began.
    order: Vec<Slot>,
    text: String,
    refusal: String,
    reasoning: String,
    reasoning_field: Option<&'static str>,
    reasoning_details: Vec<Value>,
    beside_text: Map<String, Value>,
    calls: PartialCalls,
    usage: Usage,
    finish_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Reasoning,
    Text,
    Refusal,
    Call(usize),
}

impl Decoder {
    /// For the reply to a request for this model.
    pub fn new(label: &str, model: &str) -> Self {
        Self {
            label: label.to_owned(),
            model: model.to_owned(),
            order: Vec::new(),
            text: String::new(),
            refusal: String::new(),
            reasoning: String::new(),
            reasoning_field: None,
            reasoning_details: Vec::new(),
            beside_text: Map::new(),
            calls: PartialCalls::default(),
            usage: Usage::default(),
            finish_reason: None,
        }
    }

    /// Takes the next event; gives the reply at `[DONE]`.
    pub fn event(
        &mut self,
        event: Event<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<Option<ModelReply>, ModelFailure> {
        if event.data.trim() == "[DONE]" {
            return self.end().map(Some);
        }
        let chunk = parse(event)?;
        if chunk.get("error").is_some_and(|error| !error.is_null()) || event.name == "error" {
            return Err(failure::of_stream(&ErrorReport::of(&chunk)));
        }
        let model = text_of(&chunk, "model");
        if !model.is_empty() {
            self.model = model.to_owned();
        }
        let choices = list_of(&chunk, "choices");
        let choice = choices
            .iter()
            .find(|choice| count_of(choice, "index").unwrap_or(0) == 0);
        let counts = [
            chunk.get("usage"),
            choice.and_then(|choice| choice.get("usage")),
            chunk.get("x_groq").and_then(|groq| groq.get("usage")),
        ];
        if let Some(counts) = counts.into_iter().flatten().find(|usage| usage.is_object()) {
            self.usage = usage(counts);
        }
        if let Some(choice) = choice {
            self.choice(choice, deltas)?;
        }
        Ok(None)
    }

    /// The stream ended: gives the reply if the server said why it finished.
    pub fn end(&mut self) -> Result<ModelReply, ModelFailure> {
        let Some(reason) = self.finish_reason.take() else {
            return Err(ended_early("the finish reason"));
        };
        let mut draft = Draft {
            wire: std::mem::take(&mut self.label),
            model: std::mem::take(&mut self.model),
            usage: self.usage,
            ..Draft::default()
        };
        let was_cut_off = matches!(
            reason.as_str(),
            "length" | "max_tokens" | "model_length" | "content_filter"
        );
        // Reasoning that shows no text is still wanted back by some servers; at the end it leaves
        // the positions of the other parts alone.
        let has_silent_reasoning = !self.order.contains(&Slot::Reasoning)
            && (!self.reasoning_details.is_empty()
                || (self.reasoning_field.is_some() && !self.calls.list.is_empty()));
        if has_silent_reasoning {
            self.order.push(Slot::Reasoning);
        }
        let order = std::mem::take(&mut self.order);
        let last_call = order.iter().rev().find_map(|slot| match slot {
            Slot::Call(position) => Some(*position),
            _ => None,
        });
        for slot in order {
            match slot {
                Slot::Reasoning => draft.parts.push(self.reasoning_part()),
                Slot::Text => draft.parts.push(ReplyPart::Text {
                    text: std::mem::take(&mut self.text),
                    native: (!self.beside_text.is_empty())
                        .then(|| Value::Object(std::mem::take(&mut self.beside_text))),
                }),
                Slot::Refusal => draft.parts.push(ReplyPart::Text {
                    text: std::mem::take(&mut self.refusal),
                    native: Some(json!({"refusal": true})),
                }),
                Slot::Call(position) => {
                    if let Some(call) = self.calls.list.get_mut(position) {
                        let input = call.input(was_cut_off && last_call == Some(position));
                        let rest = std::mem::take(&mut call.rest);
                        let native = (!rest.is_empty()).then_some(Value::Object(rest));
                        let (id, name) = (call.id.clone(), call.name.clone());
                        draft.call(id, name, input, native);
                    }
                }
            }
        }
        let refused = draft.parts.iter().any(is_refusal);
        let finish = match reason.as_str() {
            "length" | "max_tokens" | "model_length" => Finish::Length,
            "content_filter" => Finish::Refusal,
            "error" => {
                let told = "the server says that the reply ended with an error";
                return Err(failure::retryable("server_error", told));
            }
            // Servers say `stop` after tool calls, too.
            _ if !draft.calls.is_empty() => Finish::ToolCalls,
            _ if refused => Finish::Refusal,
            "stop" | "end_turn" | "eos" | "stop_sequence" | "tool_calls" | "function_call" => {
                Finish::Stop
            }
            _ => Finish::Other,
        };
        draft.finish(finish)
    }

    fn reasoning_part(&mut self) -> ReplyPart {
        let mut native = Map::new();
        if let Some(field) = self.reasoning_field {
            native.insert("field".into(), json!(field));
        }
        if !self.reasoning_details.is_empty() {
            let details = std::mem::take(&mut self.reasoning_details);
            native.insert("details".into(), Value::Array(details));
        }
        ReplyPart::Reasoning {
            text: std::mem::take(&mut self.reasoning),
            native: (!native.is_empty()).then_some(Value::Object(native)),
        }
    }

    fn choice(&mut self, choice: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        // A server that does not stream gives the whole message instead.
        let delta = ["delta", "message"]
            .iter()
            .find_map(|key| choice.get(*key).filter(|delta| delta.is_object()));
        if let Some(delta) = delta {
            self.delta(delta, deltas)?;
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str)
            && !reason.is_empty()
        {
            self.finish_reason = Some(reason.to_owned());
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        for field in REASONING_FIELDS {
            if let Some(text) = delta.get(field).and_then(Value::as_str) {
                let same = self.reasoning_field.is_none_or(|known| known == field);
                if same {
                    self.reasoning_field = Some(field);
                    self.think(text, deltas);
                }
            }
        }
        for detail in list_of(delta, "reasoning_details") {
            self.reasoning_detail(detail, deltas);
        }
        match delta.get("content") {
            Some(Value::String(text)) => self.say(text, deltas),
            Some(Value::Array(pieces)) => self.pieces(pieces, deltas),
            _ => {}
        }
        let refusal = text_of(delta, "refusal");
        if !refusal.is_empty() {
            let part = self.place(Slot::Refusal);
            self.refusal.push_str(refusal);
            deltas.push(Delta::Text {
                part,
                text: refusal.to_owned(),
            });
        }
        for key in ["extra_content", "annotations"] {
            if let Some(value) = delta.get(key).filter(|value| !value.is_null()) {
                self.beside_text.insert(key.to_owned(), value.clone());
            }
        }
        match delta.get("tool_calls") {
            Some(Value::Array(calls)) => {
                for piece in calls {
                    self.call(piece, deltas)?;
                }
            }
            Some(piece @ Value::Object(_)) => self.call(piece, deltas)?,
            _ => {}
        }
        if let Some(function) = delta.get("function_call").filter(|call| call.is_object()) {
            self.call(&json!({"index": 0, "function": function}), deltas)?;
        }
        Ok(())
    }

    /// The position of a part; new if it is not there yet.
    fn place(&mut self, slot: Slot) -> u32 {
        let position = self.order.iter().position(|known| *known == slot);
        let position = position.unwrap_or_else(|| {
            self.order.push(slot);
            self.order.len() - 1
        });
        u32::try_from(position).unwrap_or(u32::MAX)
    }

    fn say(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        let part = self.place(Slot::Text);
        self.text.push_str(text);
        deltas.push(Delta::Text {
            part,
            text: text.to_owned(),
        });
    }

    fn think(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        let part = self.place(Slot::Reasoning);
        self.reasoning.push_str(text);
        deltas.push(Delta::Reasoning {
            part,
            text: text.to_owned(),
        });
    }

    /// Content in typed pieces.
    fn pieces(&mut self, pieces: &[Value], deltas: &mut Vec<Delta>) {
        for piece in pieces {
            match text_of(piece, "type") {
                "thinking" => {
                    self.reasoning_field = Some("content");
                    for thought in list_of(piece, "thinking") {
                        self.think(text_of(thought, "text"), deltas);
                    }
                }
                _ => self.say(text_of(piece, "text"), deltas),
            }
        }
    }

    /// A piece of structured reasoning: one that goes on with the last is joined to it.
    fn reasoning_detail(&mut self, detail: &Value, deltas: &mut Vec<Delta>) {
        // The same words may stand in a plain field as well; that is shown then.
        if self.reasoning_field.is_none() {
            let text = [text_of(detail, "text"), text_of(detail, "summary")].concat();
            self.think(&text, deltas);
        }
        let goes_on = |last: &&mut Value| {
            let same = |key: &str| last.get(key) == detail.get(key);
            same("type") && same("index") && detail.get("data").is_none()
        };
        if let Some(Value::Object(last)) = self.reasoning_details.last_mut().filter(goes_on) {
            Self::join(last, detail);
        } else if detail.is_object() {
            self.reasoning_details.push(detail.clone());
        }
    }

    fn join(last: &mut Map<String, Value>, detail: &Value) {
        for (key, value) in detail.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                ("text" | "summary", Value::String(more)) => push_text(last, key, more),
                (_, Value::Null) => {}
                _ => {
                    last.insert(key.clone(), value.clone());
                }
            }
        }
    }

    fn call(&mut self, piece: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let grown = self.calls.grow(piece);
        if grown.is_new {
            self.order.push(Slot::Call(grown.position));
        }
        let index = u16::try_from(grown.position)
            .map_err(|_| broken_stream("the reply asks for calls without end"))?;
        if !grown.text.is_empty()
            && let Some(call) = self.calls.list.get(grown.position)
        {
            deltas.push(Delta::ToolInput {
                index,
                tool: call.name.clone(),
                text: grown.text,
            });
        }
        Ok(())
    }
}

fn is_refusal(part: &ReplyPart) -> bool {
    matches!(part, ReplyPart::Text { native: Some(native), .. } if native.get("refusal").is_some())
}
