//! Transcript items with everything that stands beside the log brought in.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;
use steadfast_core::content::{BlobRef, CallInput, ContentPart, ReplyPart, Stored, ToolOutput};
use steadfast_core::id::{CallId, SessionKey};
use steadfast_core::transcript::{CallResult, Item, ItemBody, TranscriptCall};

use crate::native::{BlobSource, BuildError};

/// Blobs read at the same time for one request.
pub(super) const READS_MAX: usize = 8;
/// Packs within packs: a fork of a fork of a fork.
const PACK_DEPTH_MAX: u32 = 16;

/// One item, whole.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LoadedItem {
    User {
        parts: Vec<ContentPart>,
    },
    Reply {
        wire: String,
        model: String,
        parts: Vec<ReplyPart>,
        calls: Vec<LoadedCall>,
    },
    Results {
        results: Vec<LoadedResult>,
    },
    Note {
        text: String,
    },
    Summary {
        text: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadedCall {
    pub(crate) id: CallId,
    pub(crate) provider_call_id: String,
    pub(crate) tool: String,
    pub(crate) input: CallInput,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadedResult {
    pub(crate) id: CallId,
    pub(crate) tool: String,
    pub(crate) output: ToolOutput,
    pub(crate) note: Option<String>,
}

/// Loads items, in order.
pub(crate) async fn items(
    session: &SessionKey,
    items: Vec<Arc<Item>>,
    blobs: &dyn BlobSource,
) -> Result<Vec<LoadedItem>, BuildError> {
    let items = unpack(session, items, blobs).await?;
    stream::iter(items)
        .map(|item| async move { load_item(session, &item, blobs).await })
        .buffered(READS_MAX)
        .try_collect()
        .await
}

/// Replaces packs by what they hold.
async fn unpack(
    session: &SessionKey,
    mut items: Vec<Arc<Item>>,
    blobs: &dyn BlobSource,
) -> Result<Vec<Arc<Item>>, BuildError> {
    for _ in 0..PACK_DEPTH_MAX {
        let packed = |item: &Arc<Item>| matches!(item.body, ItemBody::Packed { .. });
        if !items.iter().any(packed) {
            break;
        }
        let mut unpacked = Vec::with_capacity(items.len());
        for item in items {
            match &item.body {
                ItemBody::Packed { packed } => {
                    let held: Vec<Item> =
                        read(session, packed.blob, "transcript items", blobs).await?;
                    // What is beyond the end that counts was rewound.
                    let counts = |item: &Item| item.seq <= packed.last_seq;
                    unpacked.extend(held.into_iter().filter(counts).map(Arc::new));
                }
                _ => unpacked.push(item),
            }
        }
        items = unpacked;
    }
    Ok(items)
}

async fn load_item(
    session: &SessionKey,
    item: &Item,
    blobs: &dyn BlobSource,
) -> Result<LoadedItem, BuildError> {
    Ok(match &item.body {
        ItemBody::User { content, .. } => {
            let mut parts = Vec::with_capacity(content.len());
            for part in content.iter() {
                parts.push(load(session, part, "a message part", blobs).await?);
            }
            LoadedItem::User { parts }
        }
        ItemBody::Reply {
            wire,
            model,
            parts,
            calls,
            ..
        } => load_reply(session, (wire, model), parts, calls, blobs).await?,
        ItemBody::Results { results, .. } => {
            let mut loaded = Vec::with_capacity(results.len());
            for result in results {
                loaded.push(load_result(session, result, blobs).await?);
            }
            LoadedItem::Results { results: loaded }
        }
        ItemBody::Note { text } => LoadedItem::Note { text: text.clone() },
        ItemBody::Summary { summary } => LoadedItem::Summary {
            text: load(session, summary, "a summary", blobs).await?,
        },
        ItemBody::Packed { packed } => {
            return Err(BuildError::Undecodable {
                hash: packed.blob.hash.to_string(),
                what: "transcript items",
                detail: format!("packs are nested deeper than {PACK_DEPTH_MAX}"),
            });
        }
    })
}

async fn load_reply(
    session: &SessionKey,
    (wire, model): (&str, &str),
    parts: &[Stored<ReplyPart>],
    calls: &[TranscriptCall],
    blobs: &dyn BlobSource,
) -> Result<LoadedItem, BuildError> {
    let mut loaded_parts = Vec::with_capacity(parts.len());
    for part in parts {
        loaded_parts.push(load(session, part, "a reply part", blobs).await?);
    }
    let mut loaded_calls = Vec::with_capacity(calls.len());
    for call in calls {
        loaded_calls.push(LoadedCall {
            id: call.id,
            provider_call_id: call.provider_call_id.clone(),
            tool: call.tool.clone(),
            input: load(session, &call.input, "a call's input", blobs).await?,
        });
    }
    Ok(LoadedItem::Reply {
        wire: wire.to_owned(),
        model: model.to_owned(),
        parts: loaded_parts,
        calls: loaded_calls,
    })
}

async fn load_result(
    session: &SessionKey,
    result: &CallResult,
    blobs: &dyn BlobSource,
) -> Result<LoadedResult, BuildError> {
    let output = match &result.output.model_view {
        Some(view) => ToolOutput::clone(view),
        None => load(session, &result.output.output, "a call's output", blobs).await?,
    };
    Ok(LoadedResult {
        id: result.id,
        tool: result.tool.clone(),
        output,
        note: result.output.note.clone(),
    })
}

async fn load<T: Clone + DeserializeOwned>(
    session: &SessionKey,
    stored: &Stored<T>,
    what: &'static str,
    blobs: &dyn BlobSource,
) -> Result<T, BuildError> {
    match stored {
        Stored::Inline(value) => Ok(value.clone()),
        Stored::Blob(blob) => read(session, *blob, what, blobs).await,
    }
}

async fn read<T: DeserializeOwned>(
    session: &SessionKey,
    blob: BlobRef,
    what: &'static str,
    blobs: &dyn BlobSource,
) -> Result<T, BuildError> {
    let bytes = blobs.load(session, blob).await?;
    serde_json::from_slice(&bytes).map_err(|error| BuildError::Undecodable {
        hash: blob.hash.to_string(),
        what,
        detail: error.to_string(),
    })
}
