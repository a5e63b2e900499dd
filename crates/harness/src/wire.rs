//! The three wires, behind one face without IO.

use serde_json::Value;
use steadfast_core::content::ModelReply;
use steadfast_core::input::ModelFailure;
use steadfast_protocol::live::Delta;

use crate::request::ModelRequest;
use crate::{anthropic, openai_chat, openai_responses};

/// A way of speaking to a model provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Messages, by Anthropic.
    Anthropic,
    /// Chat Completions, by OpenAI and by many servers that are compatible with it.
    OpenAiChat,
    /// Responses, by OpenAI.
    OpenAiResponses,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAiChat, Self::OpenAiResponses];

    /// Its name in the configuration and in recorded replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
        }
    }

    /// Where its maker serves it.
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAiChat | Self::OpenAiResponses => "https://api.openai.com/v1",
        }
    }

    /// The address to post to.
    pub fn endpoint(self, base_url: &str) -> String {
        let base = base_url.trim_end_matches('/');
        match self {
            Self::Anthropic if base.ends_with("/v1") => format!("{base}/messages"),
            Self::Anthropic => format!("{base}/v1/messages"),
            Self::OpenAiChat => format!("{base}/chat/completions"),
            Self::OpenAiResponses => format!("{base}/responses"),
        }
    }
}

/// A wire as one provider speaks it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialect {
    /// Which wire.
    pub wire: Wire,
    /// What recorded replies are marked with: only parts with this mark are sent back natively.
    pub label: String,
    /// Peculiarities of a server that is compatible with Chat Completions.
    pub chat: openai_chat::Dialect,
}

impl Dialect {
    /// The wire as the provider with this name in the configuration speaks it at this host.
    pub fn new(wire: Wire, provider_name: &str, host: &str) -> Self {
        let label = if provider_name == wire.name() || provider_name.is_empty() {
            wire.name().to_owned()
        } else {
            format!("{}:{provider_name}", wire.name())
        };
        Self {
            wire,
            label,
            chat: openai_chat::Dialect::of_host(host),
        }
    }

    /// The body of a request.
    pub fn encode(&self, request: &ModelRequest) -> Value {
        match self.wire {
            Wire::Anthropic => anthropic::encode(request, &self.label),
            Wire::OpenAiChat => openai_chat::encode(request, &self.label, &self.chat),
            Wire::OpenAiResponses => openai_responses::encode(request, &self.label),
        }
    }

    /// Reads the reply to a request for this model.
    pub fn decoder(&self, model: &str) -> Decoder {
        match self.wire {
            Wire::Anthropic => Decoder::Anthropic(anthropic::Decoder::new(&self.label, model)),
            Wire::OpenAiChat => Decoder::OpenAiChat(openai_chat::Decoder::new(&self.label, model)),
            Wire::OpenAiResponses => {
                Decoder::OpenAiResponses(openai_responses::Decoder::new(&self.label, model))
            }
        }
    }
}

/// One server-sent event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its data.
    pub data: &'a str,
}

/// Reads the events of one reply.
#[derive(Debug)]
pub enum Decoder {
    /// Of Messages.
    Anthropic(anthropic::Decoder),
    /// Of Chat Completions.
    OpenAiChat(openai_chat::Decoder),
    /// Of Responses.
    OpenAiResponses(openai_responses::Decoder),
}

impl Decoder {
    /// Takes the next event; gives the reply if it was the wire's own last one.
    pub fn event(
        &mut self,
        event: Event<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<Option<ModelReply>, ModelFailure> {
        // Some servers keep a connection open with events that say nothing.
        if event.data.trim().is_empty() {
            return Ok(None);
        }
        match self {
            Self::Anthropic(decoder) => decoder.event(event, deltas),
            Self::OpenAiChat(decoder) => decoder.event(event, deltas),
            Self::OpenAiResponses(decoder) => decoder.event(event, deltas),
        }
    }

    /// The stream ended in good order: gives the reply if the wire allows it to end so.
    pub fn end(&mut self) -> Result<ModelReply, ModelFailure> {
        match self {
            Self::OpenAiChat(decoder) => decoder.end(),
            Self::Anthropic(_) => Err(ended_early("message_stop")),
            Self::OpenAiResponses(_) => Err(ended_early("response.completed")),
        }
    }
}

pub(crate) fn ended_early(wanted: &str) -> ModelFailure {
    crate::failure::broken_stream(format!(
        "the stream ended before {wanted}; what came so far is void"
    ))
}

/// The JSON of an event.
pub(crate) fn parse(event: Event<'_>) -> Result<Value, ModelFailure> {
    serde_json::from_str(event.data).map_err(|error| {
        crate::failure::broken_stream(format!("the stream holds what is not JSON: {error}"))
    })
}
