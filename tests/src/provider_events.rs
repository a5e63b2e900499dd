//! What a model says, as the server-sent events of each wire.

use serde_json::{Value, json};

/// A way of speaking to a model provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses];

    /// The wire whose requests go to this path.
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| wire.path() == path)
    }

    /// The `kind` of a provider in the configuration.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAiChat => "/v1/chat/completions",
            Self::OpenAiResponses => "/v1/responses",
        }
    }
}

/// One reply of the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Say {
    reasoning: Option<String>,
    text: Option<String>,
    refusal: bool,
    cut_off: bool,
    /// Name and the text of the arguments.
    calls: Vec<(String, String)>,
    usage: (u64, u64),
}

impl Say {
    /// Nothing at all.
    pub fn nothing() -> Self {
        Self {
            usage: (10, 5),
            ..Self::default()
        }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::nothing()
        }
    }

    /// A call and nothing else.
    pub fn call(tool: &str, input: &Value) -> Self {
        Self::nothing().and_call(tool, input)
    }

    /// And a call.
    #[must_use]
    pub fn and_call(self, tool: &str, input: &Value) -> Self {
        self.and_call_with(tool, &input.to_string())
    }

    /// And a call whose arguments are this text.
    #[must_use]
    pub fn and_call_with(mut self, tool: &str, arguments: &str) -> Self {
        self.calls.push((tool.to_owned(), arguments.to_owned()));
        self
    }

    /// And reasoning before all else.
    #[must_use]
    pub fn after_reasoning(mut self, text: &str) -> Self {
        self.reasoning = Some(text.to_owned());
        self
    }

    /// And ends there because it refuses.
    #[must_use]
    pub fn and_refuses(mut self) -> Self {
        self.refusal = true;
        self
    }

    /// And ends there because it may not go on.
    #[must_use]
    pub fn and_is_cut_off(mut self) -> Self {
        self.cut_off = true;
        self
    }

    /// And costs so many tokens of input and output.
    #[must_use]
    pub fn costing(mut self, input_tokens: u64, output_tokens: u64) -> Self {
        self.usage = (input_tokens, output_tokens);
        self
    }

    /// The stream in which a wire brings it. `number` tells one reply's ids from another's.
    pub fn events(&self, wire: Wire, number: u64) -> String {
        match wire {
            Wire::Anthropic => self.messages(number),
            Wire::OpenAiChat => self.chat(number),
            Wire::OpenAiResponses => self.responses(number),
        }
    }

    fn messages(&self, number: u64) -> String {
        let mut stream = Stream::named();
        let (input, output) = self.usage;
        stream.push(
            json!({"type": "message_start", "message": {"id": format!("msg_{number}"),
            "type": "message", "role": "assistant", "model": "fake-model", "content": [],
            "usage": {"input_tokens": input, "output_tokens": 1}}}),
        );
        stream.push(json!({"type": "ping"}));
        let mut index = 0;
        let mut block = |start: Value, deltas: Vec<Value>| {
            stream.push(json!({"type": "content_block_start", "index": index,
                "content_block": start}));
            for delta in deltas {
                stream.push(json!({"type": "content_block_delta", "index": index,
                    "delta": delta}));
            }
            stream.push(json!({"type": "content_block_stop", "index": index}));
            index += 1;
        };
        if let Some(reasoning) = &self.reasoning {
            let mut deltas: Vec<Value> = halves(reasoning)
                .map(|half| json!({"type": "thinking_delta", "thinking": half}))
                .collect();
            let signature = format!("sig_{number}");
            deltas.push(json!({"type": "signature_delta", "signature": signature}));
            block(
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                deltas,
            );
        }
        if let Some(text) = &self.text {
            let deltas = halves(text)
                .map(|half| json!({"type": "text_delta", "text": half}))
                .collect();
            block(json!({"type": "text", "text": ""}), deltas);
        }
        for (position, (tool, arguments)) in self.calls.iter().enumerate() {
            let deltas = halves(arguments)
                .map(|half| json!({"type": "input_json_delta", "partial_json": half}))
                .collect();
            let id = format!("toolu_{number}_{position}");
            block(
                json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
                deltas,
            );
        }
        let reason = match (self.refusal, self.cut_off, self.calls.is_empty()) {
            (true, _, _) => "refusal",
            (_, true, _) => "max_tokens",
            (_, _, false) => "tool_use",
            (_, _, true) => "end_turn",
        };
        stream.push(
            json!({"type": "message_delta", "delta": {"stop_reason": reason},
            "usage": {"output_tokens": output}}),
        );
        stream.push(json!({"type": "message_stop"}));
        stream.text
    }

    fn chat(&self, number: u64) -> String {
        let mut stream = Stream::default();
        let mut choice = |delta: Value, reason: Value| {
            stream.push(
                json!({"id": format!("chatcmpl-{number}"), "model": "fake-model",
                "object": "chat.completion.chunk", "usage": null,
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}),
            );
        };
        choice(json!({"role": "assistant", "content": null}), Value::Null);
        for half in self.reasoning.iter().flat_map(|text| halves(text)) {
            choice(json!({"reasoning_content": half}), Value::Null);
        }
        let key = if self.refusal { "refusal" } else { "content" };
        for half in self.text.iter().flat_map(|text| halves(text)) {
            choice(json!({key: half}), Value::Null);
        }
        for (index, (tool, arguments)) in self.calls.iter().enumerate() {
            let id = format!("call_{number}_{index}");
            let function = json!({"name": tool, "arguments": ""});
            let call = json!({"index": index, "id": id, "type": "function", "function": function});
            choice(json!({"tool_calls": [call]}), Value::Null);
            for half in halves(arguments) {
                let piece = json!({"index": index, "function": {"arguments": half}});
                choice(json!({"tool_calls": [piece]}), Value::Null);
            }
        }
        let reason = match (self.cut_off, self.calls.is_empty()) {
            (true, _) => "length",
            (_, false) => "tool_calls",
            (_, true) => "stop",
        };
        choice(json!({}), json!(reason));
        let (input, output) = self.usage;
        stream.push(
            json!({"id": format!("chatcmpl-{number}"), "choices": [], "usage":
            {"prompt_tokens": input, "completion_tokens": output,
             "total_tokens": input + output}}),
        );
        stream.text.push_str("data: [DONE]\n\n");
        stream.text
    }

    fn responses(&self, number: u64) -> String {
        let mut stream = Stream::named();
        let response = |status: &str| {
            json!({"id": format!("resp_{number}"), "object": "response", "model": "fake-model",
                "status": status, "output": []})
        };
        stream.push(json!({"type": "response.created", "response": response("in_progress")}));
        for (index, item) in self.items(number).into_iter().enumerate() {
            item.tell(index, &mut stream);
        }
        let (input, output) = self.usage;
        let mut end = response(if self.cut_off {
            "incomplete"
        } else {
            "completed"
        });
        end["usage"] = json!({"input_tokens": input, "output_tokens": output});
        if self.cut_off {
            end["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        let kind = format!("response.{}", end["status"].as_str().unwrap());
        stream.push(json!({"type": kind, "response": end}));
        stream.text
    }

    fn items(&self, number: u64) -> Vec<OutputItem> {
        let mut items = Vec::new();
        if let Some(text) = &self.reasoning {
            let id = format!("rs_{number}");
            let begun = json!({"type": "reasoning", "id": id, "summary": []});
            let mut done = begun.clone();
            done["summary"] = json!([{"type": "summary_text", "text": text}]);
            done["encrypted_content"] = json!(format!("enc_{number}"));
            let place = json!({"summary_index": 0});
            items.push(OutputItem::new(
                begun,
                done,
                "reasoning_summary_text",
                text,
                place,
            ));
        }
        if let Some(text) = &self.text {
            let (kind, key) = if self.refusal {
                ("refusal", "refusal")
            } else {
                ("output_text", "text")
            };
            let id = format!("msg_{number}");
            let begun = json!({"type": "message", "id": id, "role": "assistant",
                "status": "in_progress", "phase": "final_answer", "content": []});
            let mut done = begun.clone();
            done["status"] = json!("completed");
            let mut part = json!({"type": kind, key: text});
            if !self.refusal {
                part["annotations"] = json!([]);
            }
            done["content"] = json!([part]);
            let place = json!({"content_index": 0});
            items.push(OutputItem::new(begun, done, kind, text, place));
        }
        for (position, (tool, arguments)) in self.calls.iter().enumerate() {
            let begun = json!({"type": "function_call", "id": format!("fc_{number}_{position}"),
                "call_id": format!("call_{number}_{position}"), "name": tool,
                "status": "in_progress", "arguments": ""});
            let mut done = begun.clone();
            done["status"] = json!("completed");
            done["arguments"] = json!(arguments);
            let kind = "function_call_arguments";
            items.push(OutputItem::new(begun, done, kind, arguments, json!({})));
        }
        items
    }
}

/// One output item of Responses.
struct OutputItem {
    begun: Value,
    done: Value,
    /// Name of its deltas.
    kind: &'static str,
    text: String,
    /// Which piece of the item grows.
    place: Value,
}

impl OutputItem {
    fn new(begun: Value, done: Value, kind: &'static str, text: &str, place: Value) -> Self {
        Self {
            begun,
            done,
            kind,
            text: text.to_owned(),
            place,
        }
    }

    fn tell(self, index: usize, stream: &mut Stream) {
        stream.push(
            json!({"type": "response.output_item.added", "output_index": index,
            "item": self.begun}),
        );
        for half in halves(&self.text) {
            let mut delta = self.place.clone();
            delta["type"] = json!(format!("response.{}.delta", self.kind));
            delta["output_index"] = json!(index);
            delta["delta"] = json!(half);
            stream.push(delta);
        }
        stream.push(
            json!({"type": "response.output_item.done", "output_index": index,
            "item": self.done}),
        );
    }
}

/// A stream of events as it grows.
#[derive(Default)]
struct Stream {
    text: String,
    is_named: bool,
}

impl Stream {
    /// One whose events have names.
    fn named() -> Self {
        Self {
            is_named: true,
            ..Self::default()
        }
    }

    fn push(&mut self, data: Value) {
        if self.is_named {
            let name = data["type"].as_str().unwrap();
            self.text.push_str(&format!("event: {name}\n"));
        }
        self.text.push_str(&format!("data: {data}\n\n"));
    }
}

/// A text in two pieces, so that nothing depends on it coming whole.
fn halves(text: &str) -> impl Iterator<Item = &str> {
    let middle = (0..=text.len() / 2)
        .rev()
        .find(|index| text.is_char_boundary(*index))
        .unwrap_or(0);
    let (first, second) = text.split_at(middle);
    [first, second].into_iter().filter(|half| !half.is_empty())
}
