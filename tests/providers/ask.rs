//! Asking a provider as the product does.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{ContentPart, ModelReply, Stored, ToolOutput};
use steadfast_core::id::{SessionId, SessionKey, TenantId};
use steadfast_core::input::ModelFailure;
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::request::{
    ModelRequest, Purpose, RequestCall, RequestItem, RequestResult, ToolDeclaration,
};
use steadfast_harness::secret::Secret;
use steadfast_harness::transport::{HttpOptions, HttpProvider};
use steadfast_harness::wire;
use steadfast_protocol::live::Delta;
use steadfast_tests::provider_events::Wire;
use steadfast_tests::provider_server::ProviderServer;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) const KEY: &str = "sk-test-0123456789";

/// Settings for this server with a short silence.
pub(crate) fn options(server: &ProviderServer, wire: Wire) -> HttpOptions {
    let kind = match wire {
        Wire::Anthropic => wire::Wire::Anthropic,
        Wire::OpenAiChat => wire::Wire::OpenAiChat,
        Wire::OpenAiResponses => wire::Wire::OpenAiResponses,
    };
    HttpOptions {
        base_url: server.base_url(wire),
        api_key: Some(Secret::new(KEY)),
        silence_timeout: Duration::from_millis(500),
        ..HttpOptions::new(wire.kind(), kind)
    }
}

pub(crate) fn provider(server: &ProviderServer, wire: Wire) -> HttpProvider {
    HttpProvider::new(options(server, wire)).unwrap()
}

pub(crate) fn request(items: Vec<RequestItem>) -> ModelRequest {
    ModelRequest {
        session: SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new("s").unwrap(),
        },
        model: "fake-model".into(),
        instructions: "Be brief.".into(),
        tools: Arc::new(vec![ToolDeclaration {
            name: "get_weather".into(),
            description: "Weather".into(),
            input_schema: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
            provider: None,
        }]),
        items: items.into(),
        output_tokens_max: Some(1_000),
        options: Value::Null,
        purpose: Purpose::Turn,
        tool_choice: ToolChoice::Auto,
        output_schema: None,
        attempt: 1,
    }
}

pub(crate) fn user(text: &str) -> RequestItem {
    RequestItem::User {
        parts: vec![ContentPart::Text { text: text.into() }],
    }
}

/// A reply with the results of its calls, as the next request holds them.
pub(crate) fn history_of(reply: &ModelReply) -> Vec<RequestItem> {
    let inline = |part: &Stored<_>| Clone::clone(Stored::inline(part).unwrap());
    let calls: Vec<RequestCall> = reply
        .calls
        .iter()
        .map(|call| RequestCall {
            id: call.provider_call_id.clone(),
            tool: call.tool.clone(),
            input: call.input.inline().unwrap().clone(),
        })
        .collect();
    let results = calls
        .iter()
        .map(|call| RequestResult {
            id: call.id.clone(),
            tool: call.tool.clone(),
            output: ToolOutput::text("sunny"),
            note: None,
        })
        .collect();
    let reply = RequestItem::Reply {
        wire: reply.wire.clone(),
        model: reply.model.clone(),
        parts: reply.parts.iter().map(inline).collect(),
        calls,
    };
    vec![reply, RequestItem::Results { results }]
}

pub(crate) struct Answered {
    pub(crate) reply: Result<ModelReply, ModelFailure>,
    pub(crate) deltas: Vec<Delta>,
}

pub(crate) async fn ask(provider: &HttpProvider, items: Vec<RequestItem>) -> Answered {
    let (sender, mut receiver) = mpsc::channel(4);
    let collecting = async {
        let mut deltas = Vec::new();
        while let Some(delta) = receiver.recv().await {
            deltas.push(delta);
        }
        deltas
    };
    let asking = provider.reply(request(items), sender, CancellationToken::new());
    let (reply, deltas) = tokio::join!(asking, collecting);
    Answered { reply, deltas }
}

pub(crate) async fn ask_hello(provider: &HttpProvider) -> Answered {
    ask(provider, vec![user("hello")]).await
}
