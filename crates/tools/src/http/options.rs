//! Where an HTTP tool is and how long it may take.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;

/// How long connecting may take, at most.
const CONNECT_MS_MAX: u64 = 10_000;

/// Headers that belong to the contract or to the connection.
const RESERVED_HEADERS: [&str; 7] = [
    "idempotency-key",
    "traceparent",
    "content-type",
    "content-length",
    "transfer-encoding",
    "connection",
    "host",
];

/// Why an HTTP tool cannot be used: it is refused at start-up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HttpToolError {
    /// The address is none.
    #[error("not an http or https address: {reason}")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// An extra header cannot be sent.
    #[error("header {name:?} cannot be sent: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// No time or no room for an answer.
    #[error("{option} must be more than 0")]
    Zero {
        /// Which option.
        option: &'static str,
    },
    /// The client cannot be made.
    #[error("the HTTP client cannot be made: {reason}")]
    Client {
        /// Why.
        reason: String,
    },
}

/// Where an HTTP tool is and how long it may take. Its [`Debug`](fmt::Debug) form leaves out
/// header values, user, password and query.
#[derive(Clone)]
pub struct HttpOptions {
    /// Where calls are posted; `/check` is added for checks.
    pub url: String,
    /// More headers of each request, for example `authorization`.
    pub headers: BTreeMap<String, String>,
    /// For one request with its answer; `None`: the call's own deadline.
    pub timeout_ms: Option<u64>,
    /// Of an answer this much is kept.
    pub response_bytes_max: usize,
}

impl HttpOptions {
    /// Default of [`HttpOptions::response_bytes_max`].
    pub const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

    /// The endpoint with all defaults.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: BTreeMap::new(),
            timeout_ms: None,
            response_bytes_max: Self::RESPONSE_BYTES_MAX,
        }
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }

    /// At most half of the whole time, so that a host that does not answer is known not to have
    /// been reached before that time is over.
    pub(super) fn connect_timeout(&self) -> Duration {
        let half_ms = self
            .timeout_ms
            .map_or(CONNECT_MS_MAX, |timeout_ms| timeout_ms / 2);
        Duration::from_millis(half_ms.clamp(1, CONNECT_MS_MAX))
    }

    /// The addresses of calls and of checks.
    pub(super) fn urls(&self) -> Result<(Url, Url), HttpToolError> {
        let invalid = |reason: String| HttpToolError::Url { reason };
        let url = Url::parse(&self.url).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid(format!("its scheme is {:?}", url.scheme())));
        }
        let mut check_url = url.clone();
        check_url
            .path_segments_mut()
            .map_err(|()| invalid("it has no path".to_owned()))?
            .pop_if_empty()
            .push("check");
        if self.timeout_ms == Some(0) {
            return Err(HttpToolError::Zero { option: "timeout" });
        }
        if self.response_bytes_max == 0 {
            return Err(HttpToolError::Zero {
                option: "response_bytes_max",
            });
        }
        Ok((url, check_url))
    }

    pub(super) fn header_map(&self) -> Result<HeaderMap, HttpToolError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let refused = |reason| HttpToolError::Header {
                name: name.clone(),
                reason,
            };
            let header: HeaderName = name.parse().map_err(|_| refused("not a header name"))?;
            if RESERVED_HEADERS.contains(&header.as_str())
                || header.as_str().starts_with("steadfast-")
            {
                return Err(refused("it is set for each call"));
            }
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| refused("its value has odd characters"))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        Ok(headers)
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = Url::parse(&self.url).map_or_else(
            |_| "(not an address)".to_owned(),
            |url| {
                let host = url.host_str().unwrap_or_default();
                let port = url
                    .port()
                    .map_or_else(String::new, |port| format!(":{port}"));
                format!("{}://{host}{port}{}", url.scheme(), url.path())
            },
        );
        f.debug_struct("HttpOptions")
            .field("url", &shown)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("timeout_ms", &self.timeout_ms)
            .field("response_bytes_max", &self.response_bytes_max)
            .finish()
    }
}
