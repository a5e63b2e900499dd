//! What a complete HTTP answer means for its call.

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde_json::Value;
use steadfast_core::content::{CallOutput, ContentPart, FileSource, ToolOutput};
use steadfast_core::input::CallOutcome;

use crate::answer::from_envelope;
use crate::catalog::add_note;
use crate::cut::cut;
use crate::definition::whole_ms;
use crate::received::Received;

const ENVELOPE: &str = "application/vnd.steadfast.result+json";

/// Files that models can look at.
const SHOWN_FILES: [&str; 5] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
];

/// A complete answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Media type in lower case without parameters; empty if there is none.
    pub(super) content_type: String,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) body: Received,
}

/// The media type of an answer, in lower case and without parameters.
pub(super) fn content_type(headers: &HeaderMap) -> String {
    let said = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let media_type = said
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    media_type.trim().to_ascii_lowercase()
}

/// When to come again: seconds from now or a date.
pub(super) fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let said = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = said.parse::<u64>() {
        return Some(seconds.saturating_mul(1_000));
    }
    let date = httpdate::parse_http_date(said).ok()?;
    let left = date.duration_since(SystemTime::now()).unwrap_or_default();
    Some(whole_ms(left))
}

impl Answer {
    pub(super) fn is_envelope(&self) -> bool {
        self.content_type == ENVELOPE
    }

    /// What became of the call.
    ///
    /// A proxy in between may answer for a tool that it did or did not reach, and some servers
    /// answer 408 for a handler that ran too long: without the tool's own words none of these is
    /// an outcome. A 4xx with `retry-after` is the tool's word that it did nothing yet.
    pub(super) fn outcome(self) -> CallOutcome {
        let has_body = !self.body.is_empty();
        match self.status.as_u16() {
            200..=299 => CallOutcome::Done(self.result()),
            408 if !has_body => self.unknown(),
            429 if !has_body => self.retry(),
            400..=499 if self.retry_after_ms.is_some() => self.retry(),
            400..=499 | 501 => CallOutcome::Done(self.error()),
            500 if has_body => CallOutcome::Done(self.error()),
            _ => self.unknown(),
        }
    }

    fn retry(self) -> CallOutcome {
        CallOutcome::Retry {
            detail: self.in_words(),
            retry_after_ms: self.retry_after_ms,
        }
    }

    fn unknown(self) -> CallOutcome {
        CallOutcome::Unknown {
            detail: self.in_words(),
        }
    }

    /// The status and the beginning of the body.
    fn in_words(&self) -> String {
        const BODY_BYTES_MAX: usize = 200;
        let status = match self.status.canonical_reason() {
            Some(reason) => format!("the tool answered {} {reason}", self.status.as_u16()),
            None => format!("the tool answered {}", self.status.as_u16()),
        };
        if self.body.is_empty() {
            status
        } else {
            format!("{status}: {}", cut(self.body.text().trim(), BODY_BYTES_MAX))
        }
    }

    fn error(&self) -> CallOutput {
        if self.body.is_empty() {
            return ToolOutput::error(self.in_words()).into();
        }
        match self.json() {
            Some(Ok(value)) => self.noted(ToolOutput::ErrorJson { value }),
            Some(Err(_)) | None => self.noted(ToolOutput::error(self.body.text())),
        }
    }

    fn result(&self) -> CallOutput {
        let (said, misfit) = match self.json() {
            None => return self.noted(self.text_or_file()),
            Some(Ok(value)) if self.is_envelope() => match from_envelope(value) {
                Ok(output) => return output,
                Err(misfit) => (self.body.text(), misfit),
            },
            Some(Ok(value)) => return self.noted(ToolOutput::Json { value }),
            Some(Err(error)) => (self.body.text(), error.to_string()),
        };
        // The tool did answer that it succeeded, whatever the form of its answer.
        let mut output = self.noted(ToolOutput::text(said));
        let words = format!(
            "the result is not the {} it says: {misfit}",
            self.content_type
        );
        add_note(&mut output.note, &words);
        output
    }

    /// The body as JSON, when it says that it is and is there as a whole.
    fn json(&self) -> Option<Result<Value, serde_json::Error>> {
        let says_json = matches!(self.content_type.as_str(), "application/json" | "text/json")
            || self.content_type.ends_with("+json");
        let whole = self.body.truncation().is_none() && !self.body.is_empty();
        (says_json && whole).then(|| serde_json::from_slice(self.body.bytes()))
    }

    fn text_or_file(&self) -> ToolOutput {
        let whole = self.body.truncation().is_none();
        if whole && SHOWN_FILES.contains(&self.content_type.as_str()) {
            return ToolOutput::Content {
                parts: vec![ContentPart::File {
                    media_type: self.content_type.clone(),
                    name: None,
                    source: FileSource::Base64 {
                        data: STANDARD.encode(self.body.bytes()),
                    },
                }],
            };
        }
        ToolOutput::text(self.body.text())
    }

    fn noted(&self, output: ToolOutput) -> CallOutput {
        let mut output = CallOutput::from(output);
        if let Some(words) = self.body.truncation() {
            add_note(&mut output.note, &words);
        }
        output
    }
}
