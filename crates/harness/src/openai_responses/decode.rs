//! Replies.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use steadfast_core::content::{Finish, ModelReply, Usage};
use steadfast_core::input::ModelFailure;
use steadfast_protocol::live::Delta;

use crate::failure::{self, ErrorReport, broken_stream};
use crate::json::{count_of, list_of, text_of};
use crate::openai_responses::items::{self, is_call};
use crate::reply::Draft;
use crate::wire::{Event, parse};

/// Reads the events of one reply.
#[derive(Debug)]
pub struct Decoder {
    label: String,
    model: String,
    items: BTreeMap<u64, Item>,
    parts: u32,
    calls: u16,
}

/// One output item as it grows.
#[derive(Debug, Default)]
struct Item {
    /// As it began.
    begun: Map<String, Value>,
    /// As it ended.
    done: Option<Map<String, Value>>,
    /// Positions of its content parts in the reply.
    content_parts: BTreeMap<u64, u32>,
    /// Its position in the reply when it is one part.
    part: Option<u32>,
    /// Its position among the calls.
    call: u16,
    /// Content as it comes, for servers that never say what came in all.
    contents: BTreeMap<u64, (&'static str, String)>,
    summaries: BTreeMap<u64, String>,
    arguments: String,
}

impl Item {
    fn kind(&self) -> &str {
        self.begun
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// What it holds, from its end or from its pieces.
    fn body(self) -> Map<String, Value> {
        if let Some(done) = self.done {
            return done;
        }
        let mut body = self.begun;
        if !self.contents.is_empty() {
            let content = self
                .contents
                .into_values()
                .map(|(kind, text)| match kind {
                    "refusal" => json!({"type": kind, "refusal": text}),
                    kind => json!({"type": kind, "text": text}),
                })
                .collect();
            body.insert("content".into(), Value::Array(content));
        }
        if !self.summaries.is_empty() {
            let summary = self
                .summaries
                .into_values()
                .map(|text| json!({"type": "summary_text", "text": text}))
                .collect();
            body.insert("summary".into(), Value::Array(summary));
        }
        if !self.arguments.is_empty() {
            let key = match body.get("type").and_then(Value::as_str) {
                Some("custom_tool_call") => "input",
                _ => "arguments",
            };
            body.insert(key.into(), Value::String(self.arguments));
        }
        body
    }
}

impl Decoder {
    /// For the reply to a request for this model.
    pub fn new(label: &str, model: &str) -> Self {
        Self {
            label: label.to_owned(),
            model: model.to_owned(),
            items: BTreeMap::new(),
            parts: 0,
            calls: 0,
        }
    }

    /// Takes the next event; gives the reply at `response.completed` or `response.incomplete`.
    pub fn event(
        &mut self,
        event: Event<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<Option<ModelReply>, ModelFailure> {
        let data = parse(event)?;
        let kind = match text_of(&data, "type") {
            "" => event.name,
            kind => kind,
        };
        match kind {
            "response.created" | "response.in_progress" => self.name_model(&data),
            "response.output_item.added" => self.item_began(&data)?,
            "response.output_item.done" => self.item_ended(&data)?,
            "response.content_part.added" => {
                let index = count_of(&data, "content_index").unwrap_or(0);
                let (item, parts) = self.item(&data)?;
                if item.kind() == "message" {
                    item.content_part(index, parts);
                }
            }
            "response.output_text.delta" => self.text_grew(&data, "output_text", deltas)?,
            "response.refusal.delta" => self.text_grew(&data, "refusal", deltas)?,
            "response.reasoning_summary_part.added" => self.summary_began(&data, deltas)?,
            "response.reasoning_summary_text.delta" => self.summary_grew(&data, deltas)?,
            "response.reasoning_text.delta" => self.reasoning_grew(&data, deltas)?,
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.arguments_grew(&data, deltas)?;
            }
            "response.completed" | "response.incomplete" => {
                self.name_model(&data);
                return self.finish(&data, kind == "response.incomplete").map(Some);
            }
            "response.failed" => {
                let response = data.get("response").unwrap_or(&data);
                return Err(failure::of_stream(&ErrorReport::of(response)));
            }
            "response.cancelled" => {
                return Err(broken_stream("the provider cancelled the reply"));
            }
            "error" => return Err(failure::of_stream(&ErrorReport::of(&data))),
            // Every piece is told again at its end, and the provider adds kinds of events.
            _ => {}
        }
        Ok(None)
    }

    fn name_model(&mut self, data: &Value) {
        let model = data
            .get("response")
            .map(|response| text_of(response, "model"));
        if let Some(model) = model.filter(|model| !model.is_empty()) {
            self.model = model.to_owned();
        }
    }

    /// The item that an event is about, with the count of parts so far.
    fn item(&mut self, data: &Value) -> Result<(&mut Item, &mut u32), ModelFailure> {
        let index = count_of(data, "output_index")
            .ok_or_else(|| broken_stream("an event does not say which item it is about"))?;
        Ok((self.items.entry(index).or_default(), &mut self.parts))
    }

    fn item_began(&mut self, data: &Value) -> Result<(), ModelFailure> {
        let calls = self.calls;
        let (item, parts) = self.item(data)?;
        if let Some(Value::Object(body)) = data.get("item") {
            item.begun = body.clone();
        }
        if item.kind() != "message" {
            item.part(parts);
        }
        item.call = calls;
        if is_call(item.kind()) {
            self.calls = calls.saturating_add(1);
        }
        Ok(())
    }

    fn item_ended(&mut self, data: &Value) -> Result<(), ModelFailure> {
        let Some(Value::Object(body)) = data.get("item") else {
            return Err(broken_stream("an item ended without its body"));
        };
        let (item, parts) = self.item(data)?;
        if item.content_parts.is_empty() {
            item.part(parts);
        }
        item.done = Some(body.clone());
        Ok(())
    }

    fn text_grew(
        &mut self,
        data: &Value,
        kind: &'static str,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelFailure> {
        let index = count_of(data, "content_index").unwrap_or(0);
        let text = text_of(data, "delta").to_owned();
        let (item, parts) = self.item(data)?;
        if item.begun.is_empty() {
            item.begun.insert("type".into(), json!("message"));
            item.begun.insert("role".into(), json!("assistant"));
        }
        let part = item.content_part(index, parts);
        let (_, known) = item
            .contents
            .entry(index)
            .or_insert_with(|| (kind, String::new()));
        known.push_str(&text);
        deltas.push(Delta::Text { part, text });
        Ok(())
    }

    fn summary_began(&mut self, data: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let index = count_of(data, "summary_index").unwrap_or(0);
        let (item, parts) = self.item(data)?;
        let part = item.part(parts);
        let is_later = !item.summaries.is_empty() && !item.summaries.contains_key(&index);
        item.summaries.entry(index).or_default();
        if is_later {
            let text = "\n\n".to_owned();
            deltas.push(Delta::Reasoning { part, text });
        }
        Ok(())
    }

    fn summary_grew(&mut self, data: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        self.summary_began(data, deltas)?;
        let index = count_of(data, "summary_index").unwrap_or(0);
        let text = text_of(data, "delta").to_owned();
        let (item, parts) = self.item(data)?;
        let part = item.part(parts);
        item.summaries.entry(index).or_default().push_str(&text);
        deltas.push(Delta::Reasoning { part, text });
        Ok(())
    }

    fn reasoning_grew(
        &mut self,
        data: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelFailure> {
        let index = count_of(data, "content_index").unwrap_or(0);
        let text = text_of(data, "delta").to_owned();
        let (item, parts) = self.item(data)?;
        let part = item.part(parts);
        let (_, known) = item
            .contents
            .entry(index)
            .or_insert_with(|| ("reasoning_text", String::new()));
        known.push_str(&text);
        deltas.push(Delta::Reasoning { part, text });
        Ok(())
    }

    fn arguments_grew(
        &mut self,
        data: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), ModelFailure> {
        let text = text_of(data, "delta").to_owned();
        let (item, _) = self.item(data)?;
        item.arguments.push_str(&text);
        let tool = item.begun.get("name").and_then(Value::as_str);
        if is_call(item.kind()) && !text.is_empty() {
            deltas.push(Delta::ToolInput {
                index: item.call,
                tool: tool.unwrap_or_default().to_owned(),
                text,
            });
        }
        Ok(())
    }

    fn finish(&mut self, data: &Value, says_incomplete: bool) -> Result<ModelReply, ModelFailure> {
        let response = data.get("response").unwrap_or(&Value::Null);
        let output = list_of(response, "output");
        let streamed = std::mem::take(&mut self.items);
        let is_told_whole = streamed.values().all(|item| item.done.is_some())
            && (output.is_empty() || output.len() == streamed.len());
        let items: Vec<Map<String, Value>> = if is_told_whole || output.is_empty() {
            streamed.into_values().map(Item::body).collect()
        } else {
            output
                .iter()
                .filter_map(|item| item.as_object().cloned())
                .collect()
        };
        items::check_answerable(&items)?;
        let reason = response
            .get("incomplete_details")
            .map_or("", |details| text_of(details, "reason"))
            .to_owned();
        let is_incomplete = says_incomplete || text_of(response, "status") == "incomplete";
        let refused = items.iter().any(has_refusal);
        let mut draft = Draft {
            wire: std::mem::take(&mut self.label),
            model: std::mem::take(&mut self.model),
            usage: usage(response.get("usage").unwrap_or(&Value::Null)),
            ..Draft::default()
        };
        let count = items.len();
        for (position, item) in items.into_iter().enumerate() {
            items::add(&mut draft, item, is_incomplete && position + 1 == count);
        }
        let finish = match (is_incomplete, reason.as_str()) {
            (true, "content_filter") => Finish::Refusal,
            (true, "max_output_tokens" | "max_tokens") => Finish::Length,
            (true, _) => Finish::Other,
            (false, _) if !draft.calls.is_empty() => Finish::ToolCalls,
            (false, _) if refused => Finish::Refusal,
            (false, _) => Finish::Stop,
        };
        draft.finish(finish)
    }
}

impl Item {
    /// Its position as one part.
    fn part(&mut self, parts: &mut u32) -> u32 {
        *self.part.get_or_insert_with(|| next(parts))
    }

    /// The position of one of its content parts.
    fn content_part(&mut self, index: u64, parts: &mut u32) -> u32 {
        *self
            .content_parts
            .entry(index)
            .or_insert_with(|| next(parts))
    }
}

fn next(parts: &mut u32) -> u32 {
    let part = *parts;
    *parts = part.saturating_add(1);
    part
}

fn has_refusal(item: &Map<String, Value>) -> bool {
    item.get("content")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|part| text_of(part, "type") == "refusal")
}

fn usage(usage: &Value) -> Usage {
    let count = |key: &str| count_of(usage, key).unwrap_or(0);
    let detail = |group: &str, key: &str| {
        usage
            .get(group)
            .and_then(|group| count_of(group, key))
            .unwrap_or(0)
    };
    Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cache_read_tokens: detail("input_tokens_details", "cached_tokens"),
        cache_write_tokens: detail("input_tokens_details", "cache_write_tokens"),
        reasoning_tokens: detail("output_tokens_details", "reasoning_tokens"),
    }
}
