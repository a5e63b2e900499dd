//! Loads what stands in blobs and writes messages as clients see them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast_core::content::{BlobRef, CallInput, Content, ContentPart, ReplyPart, Stored};
use steadfast_core::id::SessionKey;

use super::fold::{Draft, DraftBody, DraftTool};
use super::view::{Message, Part, ToolPart, ToolState};
use crate::backend::Backend;
use crate::error::{ErrorCode, Problem};

/// Bytes of blobs that one answer may hold; what is above stays a reference.
const BLOBS_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Loads blobs of one session for one answer.
pub(crate) struct Loader<'a> {
    backend: &'a Backend,
    key: &'a SessionKey,
    left_bytes: u64,
}

enum Loaded<T> {
    Value(T),
    TooLarge(BlobRef),
}

impl<'a> Loader<'a> {
    pub(crate) fn new(backend: &'a Backend, key: &'a SessionKey) -> Self {
        Self {
            backend,
            key,
            left_bytes: BLOBS_BYTES_MAX,
        }
    }

    /// A message with all that fits the answer.
    pub(crate) async fn message(&mut self, draft: Draft) -> Result<Message, Problem> {
        let mut parts = Vec::with_capacity(draft.parts.len());
        for part in draft.parts {
            parts.extend(self.part(part.body).await?);
        }
        Ok(Message {
            id: draft.id,
            role: draft.role,
            turn_id: draft.turn.map(|turn| turn.0.0),
            index: draft.index,
            seq: draft.seq.0,
            at: draft.at.0,
            state: draft.state,
            error: draft.error,
            parts,
            metadata: draft.metadata,
        })
    }

    /// The parts of a user's message.
    pub(crate) async fn content(&mut self, content: &Content) -> Result<Vec<Part>, Problem> {
        let mut parts = Vec::with_capacity(content.len());
        for part in content {
            parts.extend(self.part(DraftBody::Content(part.clone())).await?);
        }
        Ok(parts)
    }

    async fn part(&mut self, body: DraftBody) -> Result<Option<Part>, Problem> {
        match body {
            DraftBody::Content(part) => Ok(Some(match self.stored(part).await? {
                Loaded::Value(part) => content_part(part),
                Loaded::TooLarge(blob) => blob_part(blob),
            })),
            DraftBody::Reply(part) => Ok(match self.stored(part).await? {
                Loaded::Value(part) => reply_part(part),
                Loaded::TooLarge(blob) => Some(blob_part(blob)),
            }),
            DraftBody::Summary(text) => Ok(Some(match self.stored(text).await? {
                Loaded::Value(text) => Part::Summary { text },
                Loaded::TooLarge(blob) => blob_part(blob),
            })),
            DraftBody::Tool(tool) => Ok(Some(Part::Tool(Box::new(self.tool(*tool).await?)))),
        }
    }

    async fn tool(&mut self, tool: DraftTool) -> Result<ToolPart, Problem> {
        let (input, input_error) = match self.stored(tool.input).await? {
            Loaded::Value(CallInput::Json(value)) => (value, None),
            Loaded::Value(CallInput::Malformed { text, error }) => {
                (Value::String(text), Some(error))
            }
            Loaded::TooLarge(blob) => (blob_value(blob), None),
        };
        let (output, note) = match tool.output {
            Some(output) => (Some(self.value(output.output).await?), output.note),
            None => (None, None),
        };
        let late_output = match tool.late_output {
            Some(output) => Some(self.value(output).await?),
            None => None,
        };
        Ok(ToolPart {
            call_id: tool.id.to_string(),
            tool: tool.tool,
            input,
            input_error,
            state: tool.state,
            settlement: tool.settlement.map(|settlement| json!(settlement)),
            output,
            note,
            late_output,
            approval: tool.approval,
            provider_executed: false,
        })
    }

    /// A stored value as JSON; a reference when it is too large.
    async fn value<T>(&mut self, stored: Stored<T>) -> Result<Value, Problem>
    where
        T: Serialize + DeserializeOwned,
    {
        Ok(match self.stored(stored).await? {
            Loaded::Value(value) => {
                serde_json::to_value(value).map_err(|error| unreadable(&error))?
            }
            Loaded::TooLarge(blob) => blob_value(blob),
        })
    }

    async fn stored<T: DeserializeOwned>(
        &mut self,
        stored: Stored<T>,
    ) -> Result<Loaded<T>, Problem> {
        let blob = match stored {
            Stored::Inline(value) => return Ok(Loaded::Value(value)),
            Stored::Blob(blob) => blob,
        };
        let Some(left_bytes) = self.left_bytes.checked_sub(blob.size_bytes) else {
            return Ok(Loaded::TooLarge(blob));
        };
        self.left_bytes = left_bytes;
        Ok(Loaded::Value(read(self.backend, self.key, blob).await?))
    }
}

/// Reads a blob that holds a value.
pub(crate) async fn read<T: DeserializeOwned>(
    backend: &Backend,
    key: &SessionKey,
    blob: BlobRef,
) -> Result<T, Problem> {
    let bytes = backend.blob(key, blob.hash).await?;
    let bytes = bytes.ok_or_else(|| {
        tracing::error!(session = %key, hash = %blob.hash, "blob missing");
        Problem::new(ErrorCode::Internal, "a blob that the log names is missing")
    })?;
    serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> Problem {
    tracing::error!(%error, "stored value unreadable");
    Problem::new(ErrorCode::Internal, "a stored value cannot be read")
}

fn blob_part(blob: BlobRef) -> Part {
    Part::Blob {
        hash: blob.hash.to_string(),
        size_bytes: blob.size_bytes,
    }
}

/// A reference in place of a value.
pub(crate) fn blob_value(blob: BlobRef) -> Value {
    json!({"type": "blob", "hash": blob.hash, "size_bytes": blob.size_bytes})
}

fn content_part(part: ContentPart) -> Part {
    match part {
        ContentPart::Text { text } => Part::Text { text },
        ContentPart::Json { value } => Part::Json { value },
        ContentPart::File {
            media_type,
            name,
            source,
        } => Part::File {
            media_type,
            name,
            source: json!(source),
        },
    }
}

fn reply_part(part: ReplyPart) -> Option<Part> {
    match part {
        ReplyPart::Text { text, .. } => Some(Part::Text { text }),
        ReplyPart::Reasoning { text, .. } if text.is_empty() => None,
        ReplyPart::Reasoning { text, .. } => Some(Part::Reasoning { text }),
        ReplyPart::ProviderTool {
            id,
            name,
            input,
            output,
            ..
        } => Some(Part::Tool(Box::new(ToolPart {
            call_id: id,
            tool: name,
            input,
            input_error: None,
            state: ToolState::Settled,
            settlement: None,
            output: output.map(|value| json!({"type": "json", "value": value})),
            note: None,
            late_output: None,
            approval: None,
            provider_executed: true,
        }))),
        ReplyPart::Call { .. } | ReplyPart::Opaque { .. } => None,
    }
}
