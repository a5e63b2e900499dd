//! Model providers from their configuration.

use std::sync::Arc;

use serde_json::Value;
use steadfast_core::command::ToolChoice;
use steadfast_core::content::ContentPart;
use steadfast_core::id::SessionKey;
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::request::{History, ModelRequest, Purpose, RequestItem};
use steadfast_harness::scripted::ScriptedProvider;
use steadfast_harness::secret::Secret;
use steadfast_harness::transport::{HttpOptions, HttpProvider};
use steadfast_harness::wire::Wire;

use super::tools::revealed;
use crate::config::provider::{ProviderKind, ProviderOptions};
use crate::start_error::StartError;

/// Sets a provider up; nothing is sent.
pub(crate) fn provider(
    name: &str,
    options: &ProviderOptions,
) -> Result<Arc<dyn ModelProvider>, StartError> {
    let wire = match options.kind {
        ProviderKind::Scripted => return Ok(Arc::new(ScriptedProvider::new())),
        ProviderKind::Anthropic => Wire::Anthropic,
        ProviderKind::OpenaiChat => Wire::OpenAiChat,
        ProviderKind::OpenaiResponses => Wire::OpenAiResponses,
    };
    let what = format!("providers.{name}");
    let failed = |error: &dyn std::error::Error| StartError::setup(&what, error);
    let mut http = HttpOptions::new(name, wire);
    if let Some(url) = &options.base_url {
        http.base_url.clone_from(url);
    }
    if let Some(secret) = &options.api_key {
        let text = secret.read().map_err(|error| failed(&error))?;
        http.api_key = Some(Secret::new(text.expose()));
    }
    http.headers = revealed(&options.headers)
        .map_err(|error| failed(&error))?
        .into_iter()
        .map(|(name, value)| (name, Secret::new(value)))
        .collect();
    http.connect_timeout = options.connect_timeout.get();
    http.silence_timeout = options.silence_timeout.get();
    http.context_window_tokens = options.context_window_tokens;
    http.replays_reasoning = options.replays_reasoning;
    let provider = HttpProvider::new(http).map_err(|error| failed(&error))?;
    Ok(Arc::new(provider))
}

/// A request that costs next to nothing.
pub(crate) fn one_word(session: SessionKey, model: &str) -> ModelRequest {
    ModelRequest {
        session,
        model: model.to_owned(),
        instructions: "Answer with the one word: yes.".to_owned(),
        tools: Arc::default(),
        items: History::from_iter([RequestItem::User {
            parts: vec![ContentPart::Text {
                text: "Are you there?".to_owned(),
            }],
        }]),
        output_tokens_max: None,
        options: Value::Null,
        purpose: Purpose::Turn,
        tool_choice: ToolChoice::Auto,
        output_schema: None,
        attempt: 1,
    }
}
