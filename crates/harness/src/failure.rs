//! Why a model call failed, in the classes that the session acts upon.

use serde_json::Value;
use steadfast_core::input::{FailureClass, ModelFailure};
use steadfast_core::limits::DETAIL_BYTES_MAX;

/// A failure that another attempt may cure.
pub(crate) fn retryable(code: &str, message: impl AsRef<str>) -> ModelFailure {
    let class = FailureClass::Retryable {
        retry_after_ms: None,
    };
    failure(class, code, message)
}

/// A failure that no other attempt cures.
pub(crate) fn fatal(code: &str, message: impl AsRef<str>) -> ModelFailure {
    failure(FailureClass::Fatal, code, message)
}

/// The stream ended, or said something impossible, before the wire's own last event.
pub(crate) fn broken_stream(message: impl AsRef<str>) -> ModelFailure {
    retryable("broken_stream", message)
}

/// The caller no longer wants the reply.
pub(crate) fn cancelled() -> ModelFailure {
    fatal("cancelled", "the model call was cancelled")
}

pub(crate) fn failure(class: FailureClass, code: &str, message: impl AsRef<str>) -> ModelFailure {
    ModelFailure {
        class,
        code: code.to_owned(),
        message: cut(message.as_ref(), DETAIL_BYTES_MAX).to_owned(),
    }
}

/// The longest prefix of at most this many bytes that ends between characters.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// What a provider says about an error, whatever the shape of its body.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ErrorReport {
    /// Its names for the error, most specific first.
    names: Vec<String>,
    /// Its words.
    message: String,
    /// A status given in the body.
    status: Option<u16>,
}

impl ErrorReport {
    /// Reads any of the shapes in use: `{error: {type, code, message}}`, `{error: "..."}`,
    /// `{message}`, `{detail}`, an array of those.
    pub(crate) fn of(body: &Value) -> Self {
        let body = match body {
            Value::Array(list) => list.first().unwrap_or(&Value::Null),
            other => other,
        };
        let inner = match body.get("error") {
            Some(error @ Value::Object(_)) => error,
            _ => body,
        };
        let mut report = Self::default();
        for key in ["code", "type", "status"] {
            match inner.get(key) {
                // The envelope's own type is not a name of the error.
                Some(Value::String(name)) if name != "error" => report.names.push(name.clone()),
                Some(Value::Number(number)) => {
                    report.status = report.status.or(number
                        .as_u64()
                        .and_then(|status| u16::try_from(status).ok()));
                }
                _ => {}
            }
        }
        report.message = ["message", "error", "detail", "error_description"]
            .iter()
            .filter_map(|key| inner.get(*key))
            .find_map(words)
            .unwrap_or_default();
        report
    }

    /// Words that are no JSON: a proxy's page, for example.
    pub(crate) fn of_text(text: &str) -> Self {
        Self {
            message: text.trim().to_owned(),
            ..Self::default()
        }
    }

    fn is(&self, names: &[&str]) -> bool {
        self.names.iter().any(|name| names.contains(&name.as_str()))
    }

    fn told(&self) -> String {
        match (self.names.first(), self.message.is_empty()) {
            (Some(name), false) => format!(" ({name}): {}", self.message),
            (Some(name), true) => format!(" ({name})"),
            (None, false) => format!(": {}", self.message),
            (None, true) => String::new(),
        }
    }

    fn is_context_overflow(&self) -> bool {
        const NAMES: [&str; 4] = [
            "context_length_exceeded",
            "exceed_context_size_error",
            "request_too_large",
            "model_max_prompt_tokens_exceeded",
        ];
        const PHRASES: [&str; 13] = [
            "prompt is too long",
            "input is too long",
            "exceed context limit",
            "exceeds the context window",
            "exceeds the available context size",
            "exceeds the model's context",
            "exceeded max context length",
            "maximum context length",
            "maximum prompt length",
            "context length exceeded",
            "context window exceeded",
            "exceeds the maximum number of tokens",
            "reduce the length of the messages",
        ];
        let message = self.message.to_lowercase();
        self.is(&NAMES) || PHRASES.iter().any(|phrase| message.contains(phrase))
    }
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Object(_) | Value::Array(_) => Some(value.to_string()),
        _ => None,
    }
}

/// The failure that an HTTP status other than success means.
pub(crate) fn of_status(
    status: u16,
    retry_after_ms: Option<u64>,
    report: &ErrorReport,
) -> ModelFailure {
    let told = format!("the provider answered {status}{}", report.told());
    if status == 413 || (matches!(status, 400 | 422) && report.is_context_overflow()) {
        return failure(FailureClass::ContextOverflow, "context_overflow", told);
    }
    let retry = FailureClass::Retryable { retry_after_ms };
    let (class, code) = match status {
        // A spent budget does not come back by waiting a moment.
        429 if report.is(&["insufficient_quota"]) => (FailureClass::Fatal, "insufficient_quota"),
        408 => (retry, "timeout"),
        409 => (retry, "conflict"),
        429 => (retry, "rate_limited"),
        503 | 529 => (retry, "overloaded"),
        500..=599 => (retry, "server_error"),
        401 => (FailureClass::Fatal, "unauthorized"),
        402 => (FailureClass::Fatal, "payment_required"),
        403 => (FailureClass::Fatal, "forbidden"),
        404 => (FailureClass::Fatal, "not_found"),
        422 => (FailureClass::Fatal, "unprocessable"),
        300..=399 => (FailureClass::Fatal, "redirected"),
        _ => (FailureClass::Fatal, "bad_request"),
    };
    failure(class, code, told)
}

/// The failure that an error in the middle of a stream means.
pub(crate) fn of_stream(report: &ErrorReport) -> ModelFailure {
    if let Some(status) = report.status.filter(|status| (400..600).contains(status)) {
        return of_status(status, None, report);
    }
    let told = format!("the provider broke the reply off{}", report.told());
    if report.is_context_overflow() {
        return failure(FailureClass::ContextOverflow, "context_overflow", told);
    }
    let fatal_code = [
        ("insufficient_quota", "insufficient_quota"),
        ("billing_error", "payment_required"),
        ("authentication_error", "unauthorized"),
        ("permission_error", "forbidden"),
        ("not_found_error", "not_found"),
        ("model_not_found", "not_found"),
        ("invalid_request_error", "bad_request"),
        ("invalid_prompt", "bad_request"),
    ]
    .iter()
    .find(|(name, _)| report.is(&[name]));
    if let Some((_, code)) = fatal_code {
        return fatal(code, told);
    }
    let code = if report.is(&["overloaded_error"]) {
        "overloaded"
    } else if report.is(&["rate_limit_error", "rate_limit_exceeded"]) {
        "rate_limited"
    } else {
        // A stranger's error in mid-stream is most often an outage: a few more attempts do no harm.
        "server_error"
    };
    retryable(code, told)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(status: u16, body: Value, class: FailureClass, code: &str) {
        let found = of_status(status, None, &ErrorReport::of(&body));
        assert_eq!((found.class, found.code.as_str()), (class, code), "{body}");
    }

    #[test]
    fn statuses_are_classified() {
        let again = FailureClass::Retryable {
            retry_after_ms: None,
        };
        for status in [408, 409, 429, 500, 502, 503, 504, 529] {
            assert_eq!(
                of_status(status, None, &ErrorReport::default()).class,
                again
            );
        }
        for (status, code) in [
            (400, "bad_request"),
            (401, "unauthorized"),
            (403, "forbidden"),
            (404, "not_found"),
            (422, "unprocessable"),
            (302, "redirected"),
        ] {
            check(status, json!({}), FailureClass::Fatal, code);
        }
        let quota = json!({"error": {"type": "insufficient_quota", "message": "pay"}});
        check(429, quota, FailureClass::Fatal, "insufficient_quota");
    }

    #[test]
    fn a_full_window_is_recognised_in_each_dialect() {
        let overflow = FailureClass::ContextOverflow;
        for body in [
            json!({"type": "error", "error": {"type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
            json!({"type": "error", "error": {"type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 1 + 2 > 2"}}),
            json!({"error": {"code": "context_length_exceeded", "message": "too much"}}),
            json!({"object": "error", "message": "This model's maximum context length is 4096"}),
            json!({"error": {"type": "exceed_context_size_error", "code": 400, "message": "x"}}),
            json!([{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
                "The input token count (2) exceeds the maximum number of tokens allowed (1)."}}]),
        ] {
            check(400, body, overflow, "context_overflow");
        }
        check(413, json!({}), overflow, "context_overflow");
    }

    #[test]
    fn errors_in_the_stream_are_classified_by_name() {
        let of = |body: Value| {
            let found = of_stream(&ErrorReport::of(&body));
            (found.class, found.code)
        };
        let again = FailureClass::Retryable {
            retry_after_ms: None,
        };
        let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert_eq!(of(overloaded), (again, "overloaded".into()));
        let key = json!({"error": {"type": "authentication_error", "message": "no"}});
        assert_eq!(of(key), (FailureClass::Fatal, "unauthorized".into()));
        let upstream = json!({"error": {"code": 502, "message": "upstream"}});
        assert_eq!(of(upstream), (again, "server_error".into()));
        assert_eq!(of(json!({"error": "odd"})), (again, "server_error".into()));
    }

    #[test]
    fn messages_are_cut_between_characters() {
        assert_eq!(cut("aäb", 2), "a");
        assert_eq!(cut("aäb", 3), "aä");
        assert_eq!(cut("ab", 9), "ab");
    }
}
