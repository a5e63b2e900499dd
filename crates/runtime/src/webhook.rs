//! The endpoint that is told what becomes of turns, and how a request to it is signed.
//!
//! ```text
//!  POST <url>   webhook-id          the same at each try: who has it already drops the repetition
//!               webhook-timestamp   when this try was made, in seconds since the Unix epoch
//!               webhook-signature   v1,<base64 of HMAC-SHA256(secret, "<id>.<timestamp>.<body>")>
//!  2xx: taken   410: not wanted any more   all else: tried again
//! ```

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::{Client, StatusCode, redirect, retry};
use ring::hmac;
use steadfast_core::id::Timestamp;
use thiserror::Error;
use tokio::sync::Semaphore;

/// What a secret begins with.
const SECRET_PREFIX: &str = "whsec_";
/// Bytes of a secret.
const SECRET_BYTES_MIN: usize = 24;
const SECRET_BYTES_MAX: usize = 64;

/// An endpoint, and how it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// Where it is.
    pub url: String,
    /// What requests are signed with.
    pub secret: WebhookSecret,
    /// For one request with its answer.
    pub timeout: Duration,
    /// An event that is this old and was not taken is given up.
    pub give_up_after: Duration,
    /// Requests at the same time, at most; further events wait.
    pub requests_max: usize,
}

/// What requests are signed with. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

/// Why a text is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a webhook secret is `whsec_` and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes"
)]
pub struct InvalidSecret;

impl WebhookSecret {
    /// Reads a secret of the form `whsec_<base64>`.
    pub fn new(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix(SECRET_PREFIX).ok_or(InvalidSecret)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| InvalidSecret)?;
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
            return Err(InvalidSecret);
        }
        Ok(Self(bytes))
    }

    /// The signature of a request, as its header has it.
    pub fn signature(&self, id: &str, timestamp_s: u64, body: &str) -> String {
        let signed = format!("{id}.{timestamp_s}.{body}");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let tag = hmac::sign(&key, signed.as_bytes());
        format!("v1,{}", STANDARD.encode(tag))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Why an event was not taken.
#[derive(Debug, Error)]
pub(crate) enum WebhookError {
    /// No answer came.
    #[error("the webhook gives no answer: {0}")]
    NoAnswer(String),
    /// The answer is no success.
    #[error("the webhook answers {0}")]
    Refused(StatusCode),
}

impl WebhookError {
    /// The receiver wants no such event, now or later.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Refused(StatusCode::GONE))
    }
}

/// The endpoint of this node.
pub(crate) struct Webhook {
    client: Client,
    options: WebhookOptions,
    places: Semaphore,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    taken: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
}

/// What happened to events on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WebhookFigures {
    /// Events that the endpoint took.
    pub taken: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Events that were given up.
    pub given_up: u64,
}

impl Webhook {
    pub(crate) fn new(options: WebhookOptions) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .build()?;
        Ok(Self {
            client,
            places: Semaphore::new(options.requests_max.max(1)),
            options,
            counts: Counts::default(),
        })
    }

    pub(crate) fn give_up_after(&self) -> Duration {
        self.options.give_up_after
    }

    /// Sends an event once.
    pub(crate) async fn send(
        &self,
        id: &str,
        body: &str,
        now: Timestamp,
    ) -> Result<(), WebhookError> {
        // It is never closed.
        let _place = self.places.acquire().await;
        let timestamp_s = now.0 / 1_000;
        let signature = self.options.secret.signature(id, timestamp_s, body);
        let sent = self
            .client
            .post(&self.options.url)
            .timeout(self.options.timeout)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("steadfast/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp_s)
            .header("webhook-signature", signature)
            .body(body.to_owned())
            .send()
            .await;
        let result = match sent {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(WebhookError::Refused(answer.status())),
            // Its address may hold a secret.
            Err(error) => Err(WebhookError::NoAnswer(with_causes(&error.without_url()))),
        };
        let count = match &result {
            Ok(()) => &self.counts.taken,
            Err(_) => &self.counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Counts an event that is not sent any more.
    pub(crate) fn given_up(&self) {
        self.counts.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> WebhookFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        WebhookFigures {
            taken: read(&self.counts.taken),
            failed: read(&self.counts.failed),
            given_up: read(&self.counts.given_up),
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_specification() {
        // The worked example of the Standard Webhooks libraries.
        let secret = WebhookSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = r#"{"test": 2432232314}"#;
        let signature = secret.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        let short = format!("whsec_{}", STANDARD.encode([1; 23]));
        for text in ["", "secret", "whsec_", "whsec_???", short.as_str()] {
            assert_eq!(
                WebhookSecret::new(text).err(),
                Some(InvalidSecret),
                "{text}"
            );
        }
    }
}
