//! What can go wrong below the ports.

use steadfast_store::error::{ReadError, WriteError};
use thiserror::Error;

/// Why work on the file failed.
#[derive(Debug, Error)]
pub(crate) enum Fault {
    /// The database says no.
    #[error("{0}")]
    Database(redb::Error),
    /// A row is not what was written.
    #[error("{0}")]
    Corrupt(String),
    /// The file is not open.
    #[error("{0}")]
    NotOpen(String),
}

impl Fault {
    /// The database panics on some damaged pages.
    pub(crate) fn panicked() -> Self {
        Self::Corrupt("the database panicked while it was opened: a page is damaged".into())
    }

    /// What a reader is told.
    pub(crate) fn into_read_error(self) -> ReadError {
        match self {
            Self::Corrupt(detail) | Self::Database(redb::Error::Corrupted(detail)) => {
                ReadError::Corrupt(detail)
            }
            Self::Database(error) => ReadError::Unavailable(error.to_string()),
            Self::NotOpen(reason) => ReadError::Unavailable(reason),
        }
    }

    /// What a writer is told of an operation that certainly wrote nothing.
    pub(crate) fn into_write_error(self) -> WriteError {
        match self {
            Self::Corrupt(detail) | Self::Database(redb::Error::Corrupted(detail)) => {
                WriteError::Refused(format!("the store is corrupt: {detail}"))
            }
            Self::Database(error) => WriteError::Unavailable(error.to_string()),
            Self::NotOpen(reason) => WriteError::Unavailable(reason),
        }
    }
}

macro_rules! fault_from {
    ($($error:ident)*) => {
        $(impl From<redb::$error> for Fault {
            fn from(error: redb::$error) -> Self {
                Self::Database(error.into())
            }
        })*
    };
}

fault_from!(StorageError TableError TransactionError CommitError DatabaseError SetDurabilityError);

/// Runs a read. The database panics on some damaged pages: that is an answer for the one who reads
/// them, not the end of a thread that serves others.
pub(crate) fn read_guarded<T>(read: impl FnOnce() -> Result<T, Fault>) -> Result<T, ReadError> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(Fault::into_read_error),
        Err(_) => Err(ReadError::Corrupt(
            "the database panicked while it read".into(),
        )),
    }
}
