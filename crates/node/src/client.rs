//! A client of a running node, for the commands that talk to one.

mod error;
mod events;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

pub(crate) use error::ClientError;
pub(crate) use events::{Follow, Happening, Piece};

/// Where a node is asked unless told otherwise.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:7070";

/// How long one answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// How long a command is sent again while no answer comes: a restart of the node fits into it.
const COMMAND_PATIENCE: Duration = Duration::from_secs(30);
const COMMAND_RETRY_MIN: Duration = Duration::from_millis(200);
const COMMAND_RETRY_MAX: Duration = Duration::from_secs(2);

/// One node, one key.
#[derive(Debug, Clone)]
pub(crate) struct NodeClient {
    http: reqwest::Client,
    base: String,
    key: Option<String>,
}

impl NodeClient {
    /// A client of the node at this address.
    pub(crate) fn new(base: &str, key: Option<String>) -> Result<Self, ClientError> {
        crate::tls::install();
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .build()
            .map_err(ClientError::Setup)?;
        Ok(Self {
            http,
            base: base.trim_end_matches('/').to_owned(),
            key,
        })
    }

    /// Where it is.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Reads.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.ask(Method::GET, path, None).await
    }

    /// Asks for something, under an id of its own: an answer that gets lost is asked for again for a
    /// while, and nothing happens twice.
    pub(crate) async fn command(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        let id = uuid::Uuid::now_v7().to_string();
        let request = || {
            self.request(Method::POST, path)
                .header("Idempotency-Key", &id)
                .json(body)
        };
        let mut wait = COMMAND_RETRY_MIN;
        let until = tokio::time::Instant::now() + COMMAND_PATIENCE;
        loop {
            match self.answer(request()).await {
                Err(error) if error.is_passing() && tokio::time::Instant::now() + wait < until => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(COMMAND_RETRY_MAX);
                }
                answer => return answer,
            }
        }
    }

    /// Makes what is not there.
    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.ask(Method::PUT, path, Some(body)).await
    }

    /// Removes.
    pub(crate) async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        self.ask(Method::DELETE, path, None).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.answer(request).await
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Value, ClientError> {
        let response = self.send(request.timeout(ANSWER_PATIENCE)).await?;
        let bytes = response
            .bytes()
            .await
            .map_err(|source| self.unreachable(source))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(ClientError::Answer)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends; an answer that is no success is an error with the node's own words.
    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request
            .send()
            .await
            .map_err(|source| self.unreachable(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = response.bytes().await.unwrap_or_default();
        Err(ClientError::refused(status, &body))
    }

    fn unreachable(&self, source: reqwest::Error) -> ClientError {
        ClientError::Unreachable {
            base: self.base.clone(),
            source,
        }
    }
}
