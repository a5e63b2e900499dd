//! The claims port: who runs a job that must not run twice.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::WriteError;

/// A claim stands at least this long: longer than any deadline of a call, and a ghost of its job.
pub const CLAIM_KEPT_MIN: Duration = Duration::from_secs(8 * 24 * 60 * 60);
/// The holder of a claim that nobody may run any more: whoever withdraws a job claims it so.
pub const WITHDRAWN: &str = "withdrawn";

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is the caller's.
    Mine,
    /// It was, for ever, somebody else's before.
    Other(String),
}

/// Write-once names. A claim stands at least [`CLAIM_KEPT_MIN`], then may be forgotten.
///
/// `claim` creates `key` with the value `holder`. A worker's holder belongs to one *delivery* of a
/// job and is never used again: a worker that is given its job once more, after a silence or a
/// restart, is another holder, since the first may still be at work. Of all holders that ever try a
/// key, one gets [`Claimed::Mine`]; the same holder that tries again gets `Mine` again. After
/// [`WriteError::Unknown`] it may stand now, later or never: the caller tries again and must not act
/// before it has an answer.
#[async_trait]
pub trait Claims: Send + Sync {
    /// Claims a key for a holder. Keys and holders are of `[A-Za-z0-9_.-]`.
    async fn claim(&self, key: &str, holder: &str) -> Result<Claimed, WriteError>;
}
