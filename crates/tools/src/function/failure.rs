//! How a Rust tool says that it did not succeed.

use std::error::Error;
use std::time::Duration;

use serde_json::Value;
use steadfast_core::content::ToolOutput;

use crate::definition::whole_ms;

/// Why a function gives no result. It is not an [`Error`] itself, so that `?` converts any error.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolFailure {
    /// It failed, and the model is told so. The call is over.
    Told(ToolOutput),
    /// This attempt certainly did nothing; a later one may succeed.
    Retry {
        /// Shown when no attempt is left.
        detail: String,
        /// When to come again; `None`: with the usual back-off.
        retry_after_ms: Option<u64>,
    },
    /// It may have happened or not, for example because the answer of another service was lost.
    Unknown {
        /// Why, for the log.
        detail: String,
    },
    /// An error converted by `?`, of which nobody said what it means. Of a `safe` tool the model
    /// is told; of any other tool something may have happened before it, so it is unknown.
    Unclassified {
        /// The error with its sources.
        detail: String,
    },
}

impl ToolFailure {
    /// It failed, in words for the model.
    pub fn told(text: impl Into<String>) -> Self {
        Self::Told(ToolOutput::error(text))
    }

    /// It failed, as JSON for the model.
    pub fn told_json(value: Value) -> Self {
        Self::Told(ToolOutput::ErrorJson { value })
    }

    /// This attempt certainly did nothing.
    pub fn retry(detail: impl Into<String>) -> Self {
        Self::Retry {
            detail: detail.into(),
            retry_after_ms: None,
        }
    }

    /// This attempt certainly did nothing, and the next has no chance before this time.
    pub fn retry_after(detail: impl Into<String>, after: Duration) -> Self {
        Self::Retry {
            detail: detail.into(),
            retry_after_ms: Some(whole_ms(after)),
        }
    }

    /// It may have happened or not.
    pub fn unknown(detail: impl Into<String>) -> Self {
        Self::Unknown {
            detail: detail.into(),
        }
    }
}

impl<E: Error> From<E> for ToolFailure {
    fn from(error: E) -> Self {
        Self::Unclassified {
            detail: with_sources(&error),
        }
    }
}

/// An error and its sources, each only once.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
