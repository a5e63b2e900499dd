//! Reading values that may stand beside the log.

use serde::de::DeserializeOwned;
use steadfast_core::content::Stored;
use steadfast_core::id::SessionKey;
use steadfast_store::blobs::Blobs;
use steadfast_store::error::ReadError;
use thiserror::Error;

/// Why a value is not there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ValueError {
    /// The store cannot be reached: the same may succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Its blob is gone or holds something else.
    #[error("its blob cannot be read: {0}")]
    Damaged(String),
}

/// The value itself, read from its blob if it stands in one.
pub(crate) async fn value<T: DeserializeOwned + Clone>(
    blobs: &dyn Blobs,
    key: &SessionKey,
    stored: &Stored<T>,
) -> Result<T, ValueError> {
    let blob = match stored {
        Stored::Inline(value) => return Ok(value.clone()),
        Stored::Blob(blob) => blob,
    };
    let bytes = match blobs.get(key, blob.hash).await {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(ValueError::Damaged(format!("{} is gone", blob.hash))),
        Err(ReadError::Unavailable(detail)) => return Err(ValueError::Unavailable(detail)),
        Err(ReadError::Corrupt(detail)) => return Err(ValueError::Damaged(detail)),
    };
    serde_json::from_slice(&bytes).map_err(|error| ValueError::Damaged(error.to_string()))
}
