//! What can go wrong between a client and its node.

use serde::Deserialize;
use thiserror::Error;

/// Why a request had no success.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    /// No request could be made at all.
    #[error("no HTTP client could be made: {0}")]
    Setup(reqwest::Error),
    /// Nobody answered, or the answer broke off: the request may have been carried out.
    #[error("no node answers at {base} ({reason}); start one with `steadfast dev`, or name it with --url", reason = reason(source))]
    Unreachable {
        /// Where it was looked for.
        base: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The node said no.
    #[error("{detail} ({code})")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Stable code.
        code: String,
        /// In the node's words.
        detail: String,
    },
    /// What came back is not what a node sends.
    #[error("the answer is not that of a Steadfast node: {0}")]
    Answer(serde_json::Error),
}

/// A problem document, as far as it is read.
#[derive(Deserialize)]
struct ProblemBody {
    code: String,
    detail: String,
}

impl ClientError {
    pub(super) fn refused(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<ProblemBody>(body) {
            Ok(problem) => Self::Refused {
                status,
                code: problem.code,
                detail: problem.detail,
            },
            Err(_) => Self::Refused {
                status,
                code: format!("http_{status}"),
                detail: crate::terminal::line(&String::from_utf8_lossy(body), 200),
            },
        }
    }

    /// Whether the same request, under the same id, may well succeed soon.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 502 | 503 | 504),
            Self::Setup(_) | Self::Answer(_) => false,
        }
    }

    /// The stable code, when the node said no.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            Self::Setup(_) | Self::Unreachable { .. } | Self::Answer(_) => None,
        }
    }
}

/// The innermost cause: `connection refused` says more than `error sending request`.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string().to_lowercase()
}
