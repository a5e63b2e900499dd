//! A wire over HTTP: one request, one reply or one failure, no retries.

mod client;
mod retry_after;
mod stream;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use serde_json::Value;
use steadfast_core::content::ModelReply;
use steadfast_core::input::ModelFailure;
use steadfast_core::limits::DETAIL_BYTES_MAX;
use steadfast_protocol::live::Delta;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::anthropic;
use crate::failure::{self, ErrorReport};
use crate::native::guard;
use crate::provider::ModelProvider;
use crate::request::ModelRequest;
use crate::secret::Secret;
use crate::windows::context_window_tokens;
use crate::wire::{Dialect, Wire};

/// Settings of a provider over HTTP.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Its name in the configuration; marks the replies that it can read again.
    pub name: String,
    /// How to speak to it.
    pub wire: Wire,
    /// Where it is.
    pub base_url: String,
    /// Its key; none for servers that want none.
    pub api_key: Option<Secret>,
    /// More headers; they replace those of the wire.
    pub headers: Vec<(String, Secret)>,
    /// Until a connection stands. Default 10 s.
    pub connect_timeout: Duration,
    /// Without a byte of the reply for so long, the stream is broken. Default 120 s.
    pub silence_timeout: Duration,
    /// Bytes of one reply on the wire, at most. Default 64 MiB.
    pub response_bytes_max: usize,
    /// Tokens of request and reply together, where the model's name does not tell or tells wrongly.
    pub context_window_tokens: Option<u64>,
    /// Whether reasoning is sent back over Chat Completions; some servers refuse their own.
    pub replays_reasoning: bool,
}

impl HttpOptions {
    /// The provider with this name in the configuration, at the place where the wire's maker
    /// serves it.
    pub fn new(name: impl Into<String>, wire: Wire) -> Self {
        Self {
            name: name.into(),
            wire,
            base_url: wire.default_base_url().to_owned(),
            api_key: None,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(120),
            response_bytes_max: 64 * 1024 * 1024,
            context_window_tokens: None,
            replays_reasoning: true,
        }
    }
}

/// Why a provider cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The address is none.
    #[error("`{0}` is not an http or https address: set the provider's base_url")]
    BadUrl(String),
    /// A header cannot be sent.
    #[error("header `{0}` has a name or value that http does not allow")]
    BadHeader(String),
    /// No HTTP client can be made.
    #[error("no http client can be made")]
    Client(#[from] reqwest::Error),
}

/// A provider over HTTP.
#[derive(Debug)]
pub struct HttpProvider {
    name: String,
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    dialect: Dialect,
    silence_timeout: Duration,
    response_bytes_max: usize,
    context_window_tokens: Option<u64>,
}

impl HttpProvider {
    /// Checks the settings; nothing is sent.
    pub fn new(options: HttpOptions) -> Result<Self, SetupError> {
        let bad_url = || SetupError::BadUrl(options.base_url.clone());
        let endpoint: Url = options
            .wire
            .endpoint(&options.base_url)
            .parse()
            .map_err(|_| bad_url())?;
        // The address itself is read as well: joined to a path, an empty host would become the path.
        let base: Url = options.base_url.parse().map_err(|_| bad_url())?;
        let host = base.host_str().ok_or_else(bad_url)?.to_owned();
        if !matches!(base.scheme(), "http" | "https") {
            return Err(bad_url());
        }
        let mut dialect = Dialect::new(options.wire, &options.name, &host);
        dialect.chat.replays_reasoning &= options.replays_reasoning;
        Ok(Self {
            name: options.name.clone(),
            client: client::client(options.connect_timeout)?,
            endpoint,
            headers: headers(&options)?,
            secrets: options
                .api_key
                .into_iter()
                .chain(options.headers.into_iter().map(|(_, value)| value))
                .collect(),
            dialect,
            silence_timeout: options.silence_timeout,
            response_bytes_max: options.response_bytes_max,
            context_window_tokens: options.context_window_tokens,
        })
    }

    async fn exchange(
        &self,
        request: &ModelRequest,
        deltas: &mpsc::Sender<Delta>,
    ) -> Result<ModelReply, ModelFailure> {
        let body = self.dialect.encode(request);
        let response = self.send(&body).await?;
        let status = response.status();
        tracing::debug!(
            status = status.as_u16(),
            model = request.model,
            attempt = request.attempt,
            "model provider answered"
        );
        if !status.is_success() {
            let retry_after_ms = retry_after::of(response.headers());
            let report = self.error_report(response).await;
            let failure = failure::of_status(status.as_u16(), retry_after_ms, &report);
            return Err(self.advise(failure, &request.model));
        }
        let decoder = self.dialect.decoder(&request.model);
        let limits = stream::Limits {
            silence: self.silence_timeout,
            bytes_max: self.response_bytes_max,
        };
        if is_json(&response) {
            stream::whole(response, decoder, limits, deltas).await
        } else {
            stream::events(response, decoder, limits, deltas).await
        }
    }

    async fn send(&self, body: &Value) -> Result<Response, ModelFailure> {
        let bytes = serde_json::to_vec(body)
            .map_err(|error| failure::fatal("invalid_request", error.to_string()))?;
        let mut headers = self.headers.clone();
        if let Some(beta) = anthropic::beta_header(body) {
            add_beta(&mut headers, beta);
        }
        let sent = self
            .client
            .post(self.endpoint.clone())
            .headers(headers)
            .body(bytes)
            .send();
        match tokio::time::timeout(self.silence_timeout, sent).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(client::unreachable(error)),
            Err(_) => Err(stream::silent(self.silence_timeout)),
        }
    }

    async fn error_report(&self, response: Response) -> ErrorReport {
        let text = stream::error_text(response).await;
        match serde_json::from_str(&text) {
            Ok(body @ (Value::Object(_) | Value::Array(_))) => ErrorReport::of(&body),
            _ => ErrorReport::of_text(&text),
        }
    }

    /// Says which setting is at fault, where the answer tells.
    fn advise(&self, failure: ModelFailure, model: &str) -> ModelFailure {
        let name = &self.name;
        let advice = match failure.code.as_str() {
            "unauthorized" => format!("; check `api_key` of provider `{name}`"),
            "forbidden" => format!(
                "; check what `api_key` of provider `{name}` may use, and `model` of the agent, \
                 which is `{name}/{model}`"
            ),
            "not_found" => format!(
                "; check `model` of the agent, which is `{name}/{model}`, and `base_url` of provider \
                 `{name}`"
            ),
            _ => return failure,
        };
        let room = DETAIL_BYTES_MAX.saturating_sub(advice.len());
        let message = failure::cut(&failure.message, room).to_owned() + &advice;
        ModelFailure { message, ..failure }
    }

    fn scrub(&self, mut failure: ModelFailure) -> ModelFailure {
        for secret in &self.secrets {
            secret.scrub(&mut failure.message);
        }
        failure
    }
}

#[async_trait]
impl ModelProvider for HttpProvider {
    async fn reply(
        &self,
        request: ModelRequest,
        deltas: mpsc::Sender<Delta>,
        cancelled: CancellationToken,
    ) -> Result<ModelReply, ModelFailure> {
        guard::prove(&request)
            .map_err(|invalid| failure::fatal("invalid_request", invalid.to_string()))?;
        // Dropping the exchange closes its connection.
        let reply = tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(failure::cancelled()),
            reply = self.exchange(&request, &deltas) => reply,
        };
        reply.map_err(|failure| self.scrub(failure))
    }

    fn context_window_tokens(&self, model: &str) -> Option<u64> {
        self.context_window_tokens
            .or_else(|| context_window_tokens(model))
    }
}

fn headers(options: &HttpOptions) -> Result<HeaderMap, SetupError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if options.wire == Wire::Anthropic {
        let version = HeaderValue::from_static("2023-06-01");
        headers.insert(HeaderName::from_static("anthropic-version"), version);
    }
    if let Some(key) = &options.api_key {
        let (name, value) = match options.wire {
            Wire::Anthropic => (
                HeaderName::from_static("x-api-key"),
                key.expose().to_owned(),
            ),
            Wire::OpenAiChat | Wire::OpenAiResponses => {
                (AUTHORIZATION, format!("Bearer {}", key.expose()))
            }
        };
        let value = secret_value(name.as_str(), &value)?;
        headers.insert(name, value);
    }
    for (name, value) in &options.headers {
        let value = secret_value(name, value.expose())?;
        let name =
            HeaderName::try_from(name.as_str()).map_err(|_| SetupError::BadHeader(name.clone()))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn secret_value(name: &str, value: &str) -> Result<HeaderValue, SetupError> {
    let mut value =
        HeaderValue::try_from(value).map_err(|_| SetupError::BadHeader(name.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Adds a beta to those that the configuration names.
fn add_beta(headers: &mut HeaderMap, beta: &'static str) {
    let name = HeaderName::from_static("anthropic-beta");
    let known = headers
        .get(&name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let is_known = known.split(',').any(|known| known.trim() == beta);
    let value = match known {
        "" => HeaderValue::from_static(beta),
        _ if is_known => return,
        known => match HeaderValue::try_from(format!("{known},{beta}")) {
            Ok(value) => value,
            Err(_) => return,
        },
    };
    headers.insert(name, value);
}

fn is_json(response: &Response) -> bool {
    response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json"))
}
