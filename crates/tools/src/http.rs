//! Tools behind an HTTP endpoint.
//!
//! ```text
//!  POST <url>         input as JSON body     --> 2xx: result   4xx, 501, 500 with a body: error
//!    Idempotency-Key: <tenant>/<session>/<call>  no connection: did nothing, may be tried again
//!    Steadfast-Session, -Turn, -Attempt, -Epoch  all else: nobody knows whether it happened
//!    Steadfast-Fence, a text that sorts higher at each attempt of the call
//!    traceparent
//!    Steadfast-Approval-Reason, a JSON string in ASCII, if a person gave one with the approval
//!  POST <url>/check   the same               --> { "state": "done" | "not_done" | "unknown", "result"? }
//! ```
//!
//! A check asks about the attempt whose fence it carries. A tool that answers `not_done` keeps that
//! fence with the key, and refuses requests whose fence is not above it, with 409: one that seemed
//! lost may still arrive, and the call is run again under a higher fence.
//!
//! A request is sent once over a connection of its own: a pooled connection that the server closes
//! at the moment of sending would put a call in doubt for nothing.

mod answer;
mod options;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect, retry};
use steadfast_core::input::{CallOutcome, CheckAnswer};

pub use options::{HttpOptions, HttpToolError};

use crate::answer::check_answer;
use crate::function::with_sources;
use crate::http::answer::Answer;
use crate::received::{Flood, Received};
use crate::worker::{Executor, Job, ToolIo, ToolWorker};

/// Runs calls by `POST` to an endpoint.
#[derive(Debug)]
pub struct HttpTool {
    client: Client,
    options: HttpOptions,
    url: Url,
    check_url: Url,
    headers: HeaderMap,
}

/// Why a request has no complete answer.
#[derive(Debug)]
enum ExchangeError {
    /// It never left: the tool certainly did nothing.
    NotSent(String),
    /// It may have left.
    Lost(String),
}

impl HttpTool {
    /// Checks the options and prepares the client.
    pub fn new(options: HttpOptions) -> Result<Self, HttpToolError> {
        let (url, check_url) = options.urls()?;
        let headers = options.header_map()?;
        install_tls_provider();
        let client = Client::builder()
            .user_agent(concat!("steadfast/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .pool_max_idle_per_host(0)
            .connect_timeout(options.connect_timeout())
            .build()
            .map_err(|error| HttpToolError::Client {
                reason: with_sources(&error.without_url()),
            })?;
        Ok(Self {
            client,
            options,
            url,
            check_url,
            headers,
        })
    }

    async fn exchange(&self, url: &Url, job: &Job) -> Result<Answer, ExchangeError> {
        let remaining = Duration::from_millis(job.remaining_ms);
        let body = serde_json::to_vec(&job.input).map_err(|error| not_sent(&error))?;
        let mut response = self
            .client
            .post(url.clone())
            .timeout(
                self.options
                    .timeout()
                    .map_or(remaining, |own| own.min(remaining)),
            )
            .headers(self.headers.clone())
            .headers(call_headers(job))
            .body(body)
            .send()
            .await
            .map_err(classify)?;
        let mut answer = Answer {
            status: response.status(),
            content_type: answer::content_type(response.headers()),
            retry_after_ms: answer::retry_after_ms(response.headers()),
            body: Received::new(self.options.response_bytes_max),
        };
        while let Some(chunk) = response.chunk().await.map_err(classify)? {
            answer.body.push(&chunk).map_err(|Flood| {
                ExchangeError::Lost("the answer is far larger than its bound".to_owned())
            })?;
        }
        Ok(answer)
    }
}

#[async_trait]
impl ToolWorker for HttpTool {
    fn executor(&self) -> Executor {
        Executor::Http
    }

    async fn run(&self, job: Job, io: ToolIo) -> CallOutcome {
        if io.cancelled.is_cancelled() || job.remaining_ms == 0 {
            return CallOutcome::Retry {
                detail: "it was called off before the request was sent".to_owned(),
                retry_after_ms: None,
            };
        }
        let exchanged = tokio::select! {
            biased;
            exchanged = self.exchange(&self.url, &job) => exchanged,
            () = io.cancelled.cancelled() => {
                Err(ExchangeError::Lost("cancelled while waiting for the answer".to_owned()))
            }
        };
        match exchanged {
            Ok(answer) => answer.outcome(),
            Err(ExchangeError::NotSent(detail)) => CallOutcome::Retry {
                detail,
                retry_after_ms: None,
            },
            Err(ExchangeError::Lost(detail)) => CallOutcome::Unknown { detail },
        }
    }

    async fn check(&self, job: Job) -> CheckAnswer {
        match self.exchange(&self.check_url, &job).await {
            Ok(answer) if answer.status.is_success() => {
                check_answer(answer.body.bytes(), answer.is_envelope())
            }
            Ok(answer) => {
                tracing::warn!(tool = job.tool, status = %answer.status, "a check was not answered");
                CheckAnswer::Unknown
            }
            Err(ExchangeError::NotSent(detail) | ExchangeError::Lost(detail)) => {
                tracing::warn!(tool = job.tool, detail, "a check was not answered");
                CheckAnswer::Unknown
            }
        }
    }
}

/// What identifies the call and the attempt.
fn call_headers(job: &Job) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let values = [
        ("idempotency-key", job.key()),
        ("steadfast-session", job.session.session.to_string()),
        ("steadfast-turn", job.turn.to_string()),
        ("steadfast-attempt", job.attempt.to_string()),
        ("steadfast-epoch", job.epoch.to_string()),
        ("steadfast-fence", job.fence().to_string()),
        ("traceparent", job.traceparent.clone().unwrap_or_default()),
        (
            "steadfast-approval-reason",
            job.approval_reason
                .as_deref()
                .map(ascii_json)
                .unwrap_or_default(),
        ),
    ];
    for (name, value) in values {
        // Ids and numbers always make a header; a trace context from outside may not.
        if let Ok(value) = HeaderValue::from_str(&value)
            && !value.is_empty()
        {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}

/// A text as a JSON string of ASCII: a header has no other way to say any text.
fn ascii_json(text: &str) -> String {
    let mut ascii = String::new();
    for character in serde_json::Value::from(text).to_string().chars() {
        if character.is_ascii_graphic() || character == ' ' {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii
}

fn not_sent(error: &dyn std::error::Error) -> ExchangeError {
    ExchangeError::NotSent(format!(
        "the request could not be sent: {}",
        with_sources(error)
    ))
}

/// Only a failure to connect, or to build the request, is certain to have sent nothing. The
/// address is left out, since it may hold a secret.
fn classify(error: reqwest::Error) -> ExchangeError {
    let nothing_sent = error.is_connect() || error.is_builder();
    let error = error.without_url();
    if nothing_sent {
        return not_sent(&error);
    }
    let what = if error.is_timeout() {
        "no complete answer in time"
    } else {
        "the answer was lost"
    };
    ExchangeError::Lost(format!("{what}: {}", with_sources(&error)))
}

/// The client needs a process-wide TLS provider; an application's own choice stays.
fn install_tls_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing the race means that another thread has just installed one.
        let _installed_by_another = rustls::crypto::ring::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests;
