//! Messages as clients see them.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Message {
    /// Of a user's message: its id. Else made from the event that began it.
    pub(crate) id: String,
    /// Who says it.
    pub(crate) role: Role,
    /// The turn it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_id: Option<u64>,
    /// Its position in the conversation, from 0; the cursor of pages.
    pub(crate) index: usize,
    /// Number of the event that put it here.
    pub(crate) seq: u64,
    /// When, in milliseconds since the Unix epoch.
    pub(crate) at: u64,
    /// Where its turn stands.
    pub(crate) state: State,
    /// Why its turn failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Failure>,
    /// What it says, in order.
    pub(crate) parts: Vec<Part>,
    /// The message's own data, as it was sent.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Option<Object>)]
    pub(crate) metadata: Value,
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// The user.
    User,
    /// The agent.
    Assistant,
    /// The session itself, for example about a compaction.
    System,
}

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MessageState)]
pub(crate) enum State {
    /// It is durable and will be decided.
    Accepted,
    /// It waits for its turn.
    Queued,
    /// Its turn, or the one it joined, runs or waits.
    Running,
    /// The agent answered.
    Completed,
    /// It could not be done.
    Failed,
    /// Somebody ended or withdrew it.
    Cancelled,
    /// An edited message took its place.
    Superseded,
    /// It was refused.
    Rejected,
}

/// Why something failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Failure {
    /// Stable code.
    pub(crate) code: String,
    /// For people.
    pub(crate) message: String,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = ShownPart)]
pub(crate) enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// The model's reasoning, as far as it is shown.
    Reasoning {
        /// The text.
        text: String,
    },
    /// Any JSON.
    Json {
        /// The value.
        #[schema(value_type = Object)]
        value: Value,
    },
    /// A file.
    File {
        /// Its media type.
        media_type: String,
        /// Its name.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Where its bytes are: `{"kind": "url", "url"}` or `{"kind": "base64", "data"}`.
        #[schema(value_type = Object)]
        source: Value,
    },
    /// A tool call.
    Tool(Box<ToolPart>),
    /// The history before this stands as a summary for the model.
    Summary {
        /// The summary.
        text: String,
    },
    /// A part too large for this answer.
    Blob {
        /// Its name, for `GET /v1/sessions/{session}/blobs/{hash}`.
        hash: String,
        /// How large it is.
        size_bytes: u64,
    },
}

/// A tool call and where it stands.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct ToolPart {
    /// Its id; of a call that the provider ran, the provider's.
    pub(crate) call_id: String,
    /// Name of the tool.
    pub(crate) tool: String,
    /// Arguments.
    #[schema(value_type = Object)]
    pub(crate) input: Value,
    /// The arguments are not JSON: what the parser said; `input` is then the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input_error: Option<String>,
    /// Where it stands.
    pub(crate) state: ToolState,
    /// How it ended: `done refused denied expired superseded cancelled unreachable unknown
    /// in_doubt tool_gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) settlement: Option<Value>,
    /// What it said: `{"type": "text" | "json" | "error_text" | "error_json" | "content" |
    /// "execution_denied" | "blob", ...}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) output: Option<Value>,
    /// A remark beside the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// The answer that came after the call was settled without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) late_output: Option<Value>,
    /// The approval it waits or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<ShownApproval>,
    /// The provider ran it itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) provider_executed: bool,
}

/// Where a tool call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolState {
    /// It may run and has not started.
    Pending,
    /// A person decides.
    AwaitingApproval,
    /// The client sends the result.
    AwaitingResult,
    /// The tool asks something, and the client sends the answer: see the session's `waiting`.
    AwaitingInput,
    /// It runs.
    Running,
    /// An attempt failed; the next waits.
    Retrying,
    /// The tool is asked whether it happened.
    Checking,
    /// Nobody knows whether it happened, and the turn waits to be told.
    InDoubt,
    /// It is over.
    Settled,
}

/// An approval of a call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct ShownApproval {
    /// Its id.
    pub(crate) id: String,
    /// When it counts as denied, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approved: Option<bool>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}
