//! Replies.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steadfast_core::content::{CallInput, Finish, ModelReply, ReplyPart, Usage};
use steadfast_core::input::ModelFailure;
use steadfast_core::limits::PARTS_PER_INPUT_MAX;
use steadfast_protocol::live::Delta;

use crate::anthropic::fold::fold;
use crate::failure::{self, ErrorReport, broken_stream};
use crate::json::{count_of, push_text, residue, take_text, text_of};
use crate::reply::{Draft, call_input};
use crate::wire::{Event, parse};

/// Reads the events of one reply.
#[derive(Debug)]
pub struct Decoder {
    label: String,
    model: String,
    blocks: Vec<Block>,
    /// Where the block with this index of the wire stands in `blocks`.
    positions: BTreeMap<u64, usize>,
    parts: u32,
    calls: u16,
    counts: Counts,
    stop_reason: Option<String>,
}

/// One content block as it grows.
#[derive(Debug)]
struct Block {
    body: Map<String, Value>,
    /// Arguments as they come.
    arguments: String,
    part: u32,
    call: u16,
    is_closed: bool,
}

impl Block {
    fn kind(&self) -> &str {
        self.body
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn is_provider_call(&self) -> bool {
        matches!(self.kind(), "server_tool_use" | "mcp_tool_use")
    }

    fn answers(&self, call: &Block) -> bool {
        let id = self.body.get("tool_use_id");
        id.is_some() && call.is_provider_call() && call.body.get("id") == id
    }
}

/// Token counts; each may be told again, and the last word counts.
#[derive(Debug, Default)]
struct Counts {
    fresh: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    reasoning: u64,
}

impl Counts {
    fn take(&mut self, usage: &Value) {
        for (count, key) in [
            (&mut self.fresh, "input_tokens"),
            (&mut self.cache_read, "cache_read_input_tokens"),
            (&mut self.cache_write, "cache_creation_input_tokens"),
            (&mut self.output, "output_tokens"),
        ] {
            *count = count_of(usage, key).unwrap_or(*count);
        }
        if let Some(details) = usage.get("output_tokens_details") {
            self.reasoning = count_of(details, "thinking_tokens").unwrap_or(self.reasoning);
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            input_tokens: self
                .fresh
                .saturating_add(self.cache_read)
                .saturating_add(self.cache_write),
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            reasoning_tokens: self.reasoning,
        }
    }
}

impl Decoder {
    /// For the reply to a request for this model.
    pub fn new(label: &str, model: &str) -> Self {
        Self {
            label: label.to_owned(),
            model: model.to_owned(),
            blocks: Vec::new(),
            positions: BTreeMap::new(),
            parts: 0,
            calls: 0,
            counts: Counts::default(),
            stop_reason: None,
        }
    }

    /// Takes the next event; gives the reply at `message_stop`.
    pub fn event(
        &mut self,
        event: Event<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<Option<ModelReply>, ModelFailure> {
        let mut data = parse(event)?;
        let kind = match text_of(&data, "type") {
            "" => event.name.to_owned(),
            kind => kind.to_owned(),
        };
        match kind.as_str() {
            "message_start" => {
                if let Some(message) = data.get("message") {
                    let model = text_of(message, "model");
                    if !model.is_empty() {
                        self.model = model.to_owned();
                    }
                    self.counts
                        .take(message.get("usage").unwrap_or(&Value::Null));
                }
            }
            "content_block_start" => self.block_started(&mut data)?,
            "content_block_delta" => self.block_grew(&data, deltas)?,
            "content_block_stop" => self.block(&data)?.is_closed = true,
            "message_delta" => {
                let delta = data.get("delta").unwrap_or(&Value::Null);
                if let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) {
                    self.stop_reason = Some(reason.to_owned());
                }
                self.counts.take(data.get("usage").unwrap_or(&Value::Null));
            }
            "message_stop" => return self.finish().map(Some),
            "error" => return Err(failure::of_stream(&ErrorReport::of(&data))),
            // The provider adds kinds of events over time and asks that unknown ones be passed over.
            _ => {}
        }
        Ok(None)
    }

    fn block_started(&mut self, data: &mut Value) -> Result<(), ModelFailure> {
        let index = count_of(data, "index")
            .ok_or_else(|| broken_stream("a content block came without its index"))?;
        let Some(Value::Object(body)) = data.get_mut("content_block").map(Value::take) else {
            return Err(broken_stream("a content block began without its body"));
        };
        if self.positions.insert(index, self.blocks.len()).is_some() {
            return Err(broken_stream("a content block began twice"));
        }
        let mut block = Block {
            body,
            arguments: String::new(),
            part: self.parts,
            call: self.calls,
            is_closed: false,
        };
        if self.blocks.last().is_some_and(|call| block.answers(call)) {
            // It is the same part as the call before it.
            block.part = self.parts.saturating_sub(1);
        } else {
            self.parts = self.parts.saturating_add(1);
        }
        if block.kind() == "tool_use" {
            self.calls = self.calls.saturating_add(1);
        }
        self.blocks.push(block);
        Ok(())
    }

    fn block(&mut self, data: &Value) -> Result<&mut Block, ModelFailure> {
        count_of(data, "index")
            .and_then(|index| self.positions.get(&index))
            .and_then(|position| self.blocks.get_mut(*position))
            .ok_or_else(|| broken_stream("an event names a content block that did not begin"))
    }

    fn block_grew(&mut self, data: &Value, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let block = self.block(data)?;
        let part = block.part;
        let Some(delta) = data.get("delta") else {
            return Err(broken_stream("a content block grew by nothing"));
        };
        match text_of(delta, "type") {
            "text_delta" => {
                let text = text_of(delta, "text").to_owned();
                push_text(&mut block.body, "text", &text);
                deltas.push(Delta::Text { part, text });
            }
            "thinking_delta" => {
                let text = text_of(delta, "thinking").to_owned();
                push_text(&mut block.body, "thinking", &text);
                deltas.push(Delta::Reasoning { part, text });
            }
            "signature_delta" => {
                let signature = delta.get("signature").cloned().unwrap_or_default();
                block.body.insert("signature".into(), signature);
            }
            "input_json_delta" => {
                let text = text_of(delta, "partial_json").to_owned();
                block.arguments.push_str(&text);
                if block.kind() == "tool_use" && !text.is_empty() {
                    let tool = block.body.get("name").and_then(Value::as_str);
                    deltas.push(Delta::ToolInput {
                        index: block.call,
                        tool: tool.unwrap_or_default().to_owned(),
                        text,
                    });
                }
            }
            "citations_delta" => {
                let citation = delta.get("citation").cloned().unwrap_or_default();
                match block.body.get_mut("citations") {
                    Some(Value::Array(citations)) => citations.push(citation),
                    _ => {
                        let citations = Value::Array(vec![citation]);
                        block.body.insert("citations".into(), citations);
                    }
                }
            }
            "compaction_delta" => {
                for key in ["content", "encrypted_content"] {
                    if let Some(text) = delta.get(key).and_then(Value::as_str) {
                        push_text(&mut block.body, key, text);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<ModelReply, ModelFailure> {
        let reason = self.stop_reason.take().unwrap_or_default();
        let was_cut_off = matches!(
            reason.as_str(),
            "max_tokens" | "model_context_window_exceeded" | "refusal"
        );
        let mut draft = Draft {
            wire: std::mem::take(&mut self.label),
            model: std::mem::take(&mut self.model),
            usage: self.counts.usage(),
            ..Draft::default()
        };
        let mut blocks = std::mem::take(&mut self.blocks).into_iter().peekable();
        while let Some(block) = blocks.next() {
            if block.is_provider_call() {
                let answer = blocks.next_if(|next| next.answers(&block));
                let later = blocks.peek().is_some();
                let input = arguments(&block, was_cut_off && !later && answer.is_none());
                draft.parts.push(provider_tool(block, input, answer));
            } else {
                let is_last = blocks.peek().is_none();
                add(&mut draft, block, was_cut_off && is_last);
            }
        }
        let has_provider_tool = draft
            .parts
            .iter()
            .any(|part| matches!(part, ReplyPart::ProviderTool { .. }));
        let finish = match reason.as_str() {
            "tool_use" => Finish::ToolCalls,
            "end_turn" | "stop_sequence" | "" if !draft.calls.is_empty() => Finish::ToolCalls,
            "end_turn" | "stop_sequence" | "" => Finish::Stop,
            "max_tokens" | "model_context_window_exceeded" => Finish::Length,
            "refusal" => Finish::Refusal,
            "pause_turn" if has_provider_tool => Finish::Paused,
            _ => Finish::Other,
        };
        draft.parts = fold(draft.parts, PARTS_PER_INPUT_MAX);
        draft.finish(finish)
    }
}

/// The arguments of a call, from its pieces or, from servers that do not stream them, its start.
fn arguments(block: &Block, was_cut_off: bool) -> CallInput {
    match block.body.get("input") {
        Some(Value::Object(whole)) if block.arguments.is_empty() && !whole.is_empty() => {
            CallInput::Json(Value::Object(whole.clone()))
        }
        _ => call_input(&block.arguments, was_cut_off || !block.is_closed),
    }
}

fn add(draft: &mut Draft, mut block: Block, was_cut_off: bool) {
    match block.kind() {
        "text" => {
            let text = take_text(&mut block.body, "text");
            let native = residue(block.body, &["type"]);
            draft.parts.push(ReplyPart::Text { text, native });
        }
        "thinking" => {
            let text = take_text(&mut block.body, "thinking");
            let native = residue(block.body, &["type"]);
            draft.parts.push(ReplyPart::Reasoning { text, native });
        }
        "tool_use" => {
            let input = arguments(&block, was_cut_off);
            let id = take_text(&mut block.body, "id");
            let name = take_text(&mut block.body, "name");
            let native = residue(block.body, &["type", "input"]);
            draft.call(id, name, input, native);
        }
        _ => draft.parts.push(ReplyPart::Opaque {
            native: Value::Object(block.body),
        }),
    }
}

/// A tool that the provider ran, with its result if that came right after.
fn provider_tool(mut block: Block, input: CallInput, answer: Option<Block>) -> ReplyPart {
    let id = take_text(&mut block.body, "id");
    let name = take_text(&mut block.body, "name");
    let input = match input {
        CallInput::Json(value) => value,
        CallInput::Malformed { text, .. } => Value::String(text),
    };
    let mut native = Map::new();
    let asked = residue(block.body, &["input"]).unwrap_or_default();
    native.insert("use".into(), asked);
    let output = answer.map(|mut answer| {
        let output = answer.body.remove("content").unwrap_or_default();
        let answered = residue(answer.body, &["tool_use_id"]).unwrap_or_default();
        native.insert("result".into(), answered);
        output
    });
    ReplyPart::ProviderTool {
        id,
        name,
        input,
        output,
        native: Some(Value::Object(native)),
    }
}
