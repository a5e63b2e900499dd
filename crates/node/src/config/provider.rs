//! `[providers.NAME]`: who is asked for model replies.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::duration::Duration;
use crate::config::secret::Secret;

/// A model provider: one wire, one base URL, one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderOptions {
    /// Which wire it speaks.
    pub kind: ProviderKind,
    /// Where it is. Default: the public API of `anthropic`, and of OpenAI for the openai kinds,
    /// which include `/v1` as their own clients do.
    #[serde(default)]
    pub base_url: Option<String>,
    /// Its key. Local servers may need none.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// More request headers; a value may be `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// For making a connection.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Duration,
    /// Longest silence of the provider before a model call counts as broken and is tried again.
    #[serde(default = "silence_timeout")]
    pub silence_timeout: Duration,
    /// Tokens that fit a request and its reply, where the provider's models are not known here.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub context_window_tokens: Option<u64>,
    /// Whether reasoning is sent back to `openai-chat` servers; some refuse their own.
    #[serde(default = "replays_reasoning")]
    pub replays_reasoning: bool,
}

/// Wires of model providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, and the many servers that speak it.
    OpenaiChat,
    /// OpenAI's Responses API.
    OpenaiResponses,
    /// No network: replies follow a script in the user's message. For demos and tests.
    Scripted,
}

impl ProviderOptions {
    /// A provider of this kind with the default of every other option.
    pub fn new(kind: ProviderKind) -> Self {
        Self {
            kind,
            base_url: None,
            api_key: None,
            headers: BTreeMap::new(),
            connect_timeout: connect_timeout(),
            silence_timeout: silence_timeout(),
            context_window_tokens: None,
            replays_reasoning: replays_reasoning(),
        }
    }
}

fn connect_timeout() -> Duration {
    Duration::from_secs(10)
}

fn silence_timeout() -> Duration {
    Duration::from_secs(120)
}

fn replays_reasoning() -> bool {
    true
}
