//! Errors that all ports share. Each says what is known about the operation.

use thiserror::Error;

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The store cannot be reached now; the same read may succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store holds something that cannot be right.
    #[error("the store is corrupt: {0}")]
    Corrupt(String),
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WriteError {
    /// Certainly not written; the same write may succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Nobody knows whether it was, or will be, written.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(String),
    /// Certainly not written, because the store has no room left; once it has some, the same write
    /// succeeds.
    #[error("the store has no room left: {0}")]
    Full(String),
    /// Certainly not written, and never will be: too large, not what the store can keep.
    #[error("the store refused the write: {0}")]
    Refused(String),
}
