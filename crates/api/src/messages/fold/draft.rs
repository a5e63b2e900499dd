//! A message in the making, as far as the log itself holds it.

use serde::Serialize;
use serde_json::Value;
use steadfast_core::content::{CallInput, CallOutput, ContentPart, ReplyPart, Stored, ToolOutput};
use steadfast_core::event::Settlement;
use steadfast_core::id::{CallId, Seq, Timestamp, TurnId};
use steadfast_core::input::Place;

use crate::messages::view::{Failure, Role, ShownApproval, State, ToolState};

/// A message whose blobs are not loaded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    pub(in crate::messages) id: String,
    /// Position in the conversation, from 0.
    pub(in crate::messages) index: usize,
    pub(in crate::messages) role: Role,
    pub(in crate::messages) turn: Option<TurnId>,
    pub(in crate::messages) seq: Seq,
    pub(in crate::messages) at: Timestamp,
    pub(in crate::messages) state: State,
    pub(in crate::messages) error: Option<Failure>,
    pub(in crate::messages) parts: Vec<DraftPart>,
    pub(in crate::messages) metadata: Value,
}

/// A part with the event that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::messages) struct DraftPart {
    pub(in crate::messages) seq: Seq,
    pub(in crate::messages) body: DraftBody,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::messages) enum DraftBody {
    Content(Stored<ContentPart>),
    Reply(Stored<ReplyPart>),
    Tool(Box<DraftTool>),
    Summary(Stored<String>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::messages) struct DraftTool {
    pub(in crate::messages) id: CallId,
    /// It stands in a copied transcript: its id is another session's, and no event is about it.
    pub(in crate::messages) copied: bool,
    pub(in crate::messages) tool: String,
    pub(in crate::messages) input: Stored<CallInput>,
    pub(in crate::messages) place: Place,
    pub(in crate::messages) state: ToolState,
    pub(in crate::messages) settlement: Option<Settlement>,
    pub(in crate::messages) output: Option<CallOutput>,
    pub(in crate::messages) late_output: Option<Stored<ToolOutput>>,
    pub(in crate::messages) approval: Option<ShownApproval>,
}

impl DraftBody {
    /// About how many bytes it has as JSON.
    pub(super) fn size_bytes(&self) -> usize {
        match self {
            Self::Content(part) => stored_bytes(part),
            Self::Reply(part) => stored_bytes(part),
            Self::Tool(tool) => stored_bytes(&tool.input),
            Self::Summary(text) => stored_bytes(text),
        }
    }
}

/// About how many bytes a value has as JSON; what is a blob counts when it is loaded.
pub(super) fn stored_bytes<T: Serialize>(stored: &Stored<T>) -> usize {
    /// Names, brackets and the like.
    const FRAME_BYTES: usize = 64;
    let value = stored.inline().map(serde_json::to_string);
    value.and_then(Result::ok).map_or(0, |text| text.len()) + FRAME_BYTES
}
