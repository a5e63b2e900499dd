//! The claims port: who runs a job that must not run twice.

use async_trait::async_trait;

use crate::error::WriteError;

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is the caller's.
    Mine,
    /// It was, for ever, somebody else's before.
    Other(String),
}

/// Write-once names. A claim stands longer than any job may take (at least eight days), then may be
/// forgotten.
///
/// `claim` creates `key` with the value `holder`, which belongs to one delivery of a job and is
/// never used by another. Of all holders that ever try a key, one gets [`Claimed::Mine`]; the same
/// holder that tries again gets `Mine` again. After [`WriteError::Unknown`] it may stand now, later
/// or never: the caller tries again and must not act before it has an answer.
#[async_trait]
pub trait Claims: Send + Sync {
    /// Claims a key for a holder.
    async fn claim(&self, key: &str, holder: &str) -> Result<Claimed, WriteError>;
}
