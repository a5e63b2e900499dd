//! What a model is asked, with everything loaded and nothing of any wire.

mod history;

use std::sync::Arc;

use serde_json::Value;
use steadfast_core::command::ToolChoice;
use steadfast_core::content::{CallInput, ContentPart, ReplyPart, ToolOutput};
use steadfast_core::id::SessionKey;

pub use history::{Counts, History};

/// One request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The session: a stable name for the provider's cache.
    pub session: SessionKey,
    /// The provider's name of the model.
    pub model: String,
    /// System instructions; stable over the turns of a session.
    pub instructions: String,
    /// Tools offered, in a stable order.
    pub tools: Arc<Vec<ToolDeclaration>>,
    /// The history, oldest first.
    pub items: History,
    /// Output tokens, at most; `None`: the provider's default.
    pub output_tokens_max: Option<u64>,
    /// More options of the wire, merged into the body as they are.
    pub options: Value,
    /// What the reply is for.
    pub purpose: Purpose,
    /// Whether the model calls tools.
    pub tool_choice: ToolChoice,
    /// JSON Schema of an answer, for wires that can make a model keep to it; the instructions tell
    /// it as well.
    pub output_schema: Option<Arc<Value>>,
    /// Which attempt of this reply, from 1; as the log counts them.
    pub attempt: u32,
}

/// What a reply is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The next step of a turn.
    Turn,
    /// A summary of the history.
    Compaction,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDeclaration {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// JSON Schema of the input.
    pub input_schema: Value,
    /// For a tool whose shape is the provider's: which of its tools this is.
    pub provider: Option<ProviderTool>,
}

/// A tool that a provider defines. A wire of another provider does not offer it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderTool {
    /// Provider and type as configured, for example `anthropic.bash_20250124`.
    pub id: String,
    /// The provider's own settings of the tool, an object.
    pub options: Value,
}

impl ProviderTool {
    /// The provider's name of the type, if the tool is of this provider.
    pub fn type_of(&self, provider: &str) -> Option<&str> {
        let (owner, name) = self.id.split_once('.')?;
        (owner == provider).then_some(name)
    }
}

/// One item of the history.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestItem {
    /// The user, or something told in the user's place.
    User {
        /// What is said.
        parts: Vec<ContentPart>,
    },
    /// The model.
    Reply {
        /// Which wire can read the `native` parts.
        wire: String,
        /// The model that said it.
        model: String,
        /// What it said.
        parts: Vec<ReplyPart>,
        /// What it asked for.
        calls: Vec<RequestCall>,
    },
    /// The results of all calls of the reply before, in the order asked.
    Results {
        /// The results.
        results: Vec<RequestResult>,
    },
}

/// A call in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestCall {
    /// The provider's own id, if the wire is the same; else any id that is unique in the history.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Arguments.
    pub input: CallInput,
}

/// A result in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestResult {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// What the model is told.
    pub output: ToolOutput,
    /// A remark beside it.
    pub note: Option<String>,
}
