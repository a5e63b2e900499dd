//! Puts what an event keeps in blobs back into it, so that the fold needs no IO.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast_core::content::{BlobRef, CallOutput, Stored};
use steadfast_core::event::Event;
use steadfast_core::id::SessionKey;

use crate::backend::Backend;
use crate::error::Problem;
use crate::messages::load;

/// Bytes of blobs that one stream may hold; what is above stays a reference.
const BLOBS_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What one stream may still load.
#[derive(Debug)]
pub(crate) struct Budget {
    left_bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            left_bytes: BLOBS_BYTES_MAX,
        }
    }
}

impl Budget {
    /// The event with its blobs, as far as they fit; `None`: it has none.
    pub(crate) async fn inlined(
        &mut self,
        backend: &Backend,
        key: &SessionKey,
        event: &Event,
    ) -> Result<Option<Event>, Problem> {
        if !has_blobs(event) {
            return Ok(None);
        }
        let mut event = event.clone();
        match &mut event {
            Event::ModelReplied { parts, calls, .. } => {
                for part in parts {
                    self.load(backend, key, part).await?;
                }
                for call in calls {
                    self.load(backend, key, &mut call.input).await?;
                }
            }
            Event::CallSettled { output, .. } | Event::CallResolved { output, .. } => {
                self.load(backend, key, &mut output.output).await?;
            }
            Event::TurnQueued { content, .. } => {
                for part in content {
                    self.load(backend, key, part).await?;
                }
            }
            _ => {}
        }
        Ok(Some(event))
    }

    async fn load<T: DeserializeOwned>(
        &mut self,
        backend: &Backend,
        key: &SessionKey,
        stored: &mut Stored<T>,
    ) -> Result<(), Problem> {
        let Stored::Blob(blob) = stored else {
            return Ok(());
        };
        let Some(left_bytes) = self.left_bytes.checked_sub(blob.size_bytes) else {
            return Ok(());
        };
        self.left_bytes = left_bytes;
        *stored = Stored::Inline(load::read(backend, key, *blob).await?);
        Ok(())
    }
}

fn has_blobs(event: &Event) -> bool {
    match event {
        Event::ModelReplied { parts, calls, .. } => {
            parts.iter().any(is_blob) || calls.iter().any(|call| is_blob(&call.input))
        }
        Event::CallSettled {
            output: CallOutput { output, .. },
            ..
        }
        | Event::CallResolved {
            output: CallOutput { output, .. },
            ..
        } => is_blob(output),
        Event::TurnQueued { content, .. } => content.iter().any(is_blob),
        _ => false,
    }
}

fn is_blob<T>(stored: &Stored<T>) -> bool {
    matches!(stored, Stored::Blob(_))
}

/// What stands in place of a value that is too large for the stream.
pub(crate) fn missing<T>(stored: &Stored<T>) -> Value {
    match stored {
        Stored::Blob(BlobRef { hash, size_bytes }) => {
            json!({"type": "blob", "hash": hash, "size_bytes": size_bytes})
        }
        Stored::Inline(_) => Value::Null,
    }
}
