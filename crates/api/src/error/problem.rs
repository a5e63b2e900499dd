//! A problem document as RFC 9457 describes it.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::ErrorCode;

/// An error on its way to the client.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    code: ErrorCode,
    detail: String,
    field: Option<String>,
    retry_after_s: Option<u64>,
}

/// The body of every answer that is not a success, as `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// `urn:steadfast:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means, in a few words.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong this time and what to do about it.
    pub detail: String,
    /// Stable code for programs.
    pub code: &'static str,
    /// The field, query parameter, path part or header that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// When to try again, in seconds; also in the header `retry-after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u64>,
}

impl Problem {
    /// A problem with these words about this very case.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let retry_after_s = match code {
            ErrorCode::QueueFull | ErrorCode::MailboxFull => Some(5),
            ErrorCode::TenantStreamsFull | ErrorCode::StreamsFull | ErrorCode::StoreFull => {
                Some(10)
            }
            ErrorCode::StoreUnavailable
            | ErrorCode::OutcomeUnknown
            | ErrorCode::Draining
            | ErrorCode::TimedOut
            | ErrorCode::SessionNewer => Some(2),
            _ => None,
        };
        Self {
            code,
            detail: detail.into(),
            field: None,
            retry_after_s,
        }
    }

    /// The same about a named field.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// A field of the body that is not valid.
    pub fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        let field = field.into();
        let detail = format!("`{field}`: {}", detail.into());
        Self::new(ErrorCode::FieldInvalid, detail).with_field(field)
    }

    /// A field of the body that is not there.
    pub fn missing(field: impl Into<String>) -> Self {
        let field = field.into();
        Self::new(ErrorCode::FieldMissing, format!("`{field}` is missing")).with_field(field)
    }

    /// Its code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// Its body.
    pub fn body(&self) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:steadfast:problem:{}", self.code.code()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: self.detail.clone(),
            code: self.code.code(),
            field: self.field.clone(),
            retry_after_s: self.retry_after_s,
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let problem = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, problem);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == ErrorCode::Unauthorized {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        headers
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.body()).unwrap_or_default();
        (self.code.status(), self.headers(), body).into_response()
    }
}
