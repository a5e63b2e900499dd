//! A client of the native routes.

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// A client of one node.
#[derive(Debug, Clone)]
pub struct Client {
    base: String,
    http: reqwest::Client,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Status code.
    pub status: StatusCode,
    /// The body; `null` when there is none.
    pub body: Value,
}

impl Answer {
    /// The body of an answer that is a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.status.is_success(), "{}: {}", self.status, self.body);
        self.body
    }

    /// The stable code of an answer that is an error.
    pub fn code(&self) -> Option<&str> {
        self.body["code"].as_str()
    }
}

/// The HTTP client that all share. TLS has one provider in this tree; tests do not use it, and the
/// client wants one all the same.
pub fn http() -> reqwest::Client {
    static TLS: OnceLock<()> = OnceLock::new();
    TLS.get_or_init(|| {
        // Already installed is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder().no_proxy().build().unwrap()
}

impl Client {
    /// A client of the node at this URL.
    pub fn new(base: String) -> Self {
        Self { base, http: http() }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Whether the node says that it is ready.
    pub async fn is_ready(&self) -> bool {
        let request = self.http.get(self.url("/readyz"));
        let answer = request.timeout(Duration::from_secs(2)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Sends a request; an error is one of the connection, after which nothing is known.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, reqwest::Error> {
        let mut request = self.http.request(method, self.url(path));
        if let Some(body) = body {
            request = request.json(body);
        }
        finish(request).await
    }

    /// A `GET` that reaches the node.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await.unwrap()
    }

    /// A `POST` that reaches the node.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await.unwrap()
    }

    /// A `POST` of a command under an id chosen here.
    pub async fn post_keyed(
        &self,
        path: &str,
        id: &str,
        body: &Value,
    ) -> Result<Answer, reqwest::Error> {
        let request = self.http.post(self.url(path)).header("idempotency-key", id);
        finish(request.json(body)).await
    }

    /// Sends a message to a session of this agent.
    pub async fn message(&self, session: &str, agent: &str, id: &str, text: &str) -> Answer {
        let body = json!({ "id": id, "agent": agent, "content": text });
        let path = format!("/v1/sessions/{session}/messages");
        self.post(&path, &body).await
    }

    /// Where a message stands.
    pub async fn receipt(&self, session: &str, message: &str) -> Value {
        let path = format!("/v1/sessions/{session}/messages/{message}");
        self.get(&path).await.ok()
    }
}

async fn finish(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    let answer = request.send().await?;
    let status = answer.status();
    let bytes = answer.bytes().await?;
    let body = if bytes.is_empty() {
        Value::Null
    } else {
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(text()))
    };
    Ok(Answer { status, body })
}
