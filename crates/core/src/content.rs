//! What people, models and tools say: message content, model replies, tool outputs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::id::InvalidId;

/// BLAKE3 hash of a blob's bytes; 64 hexadecimal digits as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

impl BlobHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl FromStr for BlobHash {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        blake3::Hash::from_hex(text)
            .map(|hash| Self(*hash.as_bytes()))
            .map_err(|_| InvalidId {
                kind: "blob hash",
                rule: "64 hexadecimal digits",
            })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for BlobHash {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BlobHash".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

impl Serialize for BlobHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlobHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Where content too large for the log stands: beside it, in the session's blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlobRef {
    /// Hash of the bytes; also the name in the blob store.
    pub hash: BlobHash,
    /// Length of the bytes.
    pub size_bytes: u64,
}

/// A value in the log itself, or beside it as a blob that was written first.
///
/// A blob holds the value as JSON. The runtime moves what is above
/// [`crate::limits::INLINE_BYTES_MAX`] into blobs before `decide` sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Stored<T> {
    /// In the log.
    Inline(T),
    /// Beside the log.
    Blob(BlobRef),
}

impl<T> Stored<T> {
    /// The value, when it is in the log.
    pub fn inline(&self) -> Option<&T> {
        match self {
            Self::Inline(value) => Some(value),
            Self::Blob(_) => None,
        }
    }
}

/// One part of a user's message or of a tool's rich result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ContentPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Any JSON.
    Json {
        /// The value.
        value: Value,
    },
    /// A file or image.
    File {
        /// IANA media type, for example `image/png`.
        media_type: String,
        /// File name to show, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Where its bytes are.
        source: FileSource,
    },
}

/// Bytes of a [`ContentPart::File`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum FileSource {
    /// Somewhere on the web; fetched by the model provider, not by us.
    Url {
        /// The address.
        url: String,
    },
    /// Here, base64.
    Base64 {
        /// Standard alphabet, padded.
        data: String,
    },
}

/// The parts of a message.
pub type Content = Vec<Stored<ContentPart>>;

/// What a tool said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ToolOutput {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// JSON.
    Json {
        /// The value.
        value: Value,
    },
    /// The tool ran and says it failed, in words.
    ErrorText {
        /// The words.
        text: String,
    },
    /// The tool ran and says it failed, as JSON.
    ErrorJson {
        /// The value.
        value: Value,
    },
    /// Several parts, for example text and images.
    Content {
        /// The parts.
        parts: Vec<ContentPart>,
    },
    /// The tool was not allowed to run.
    ExecutionDenied {
        /// Why, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl ToolOutput {
    /// Text output.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Error output in words.
    pub fn error(text: impl Into<String>) -> Self {
        Self::ErrorText { text: text.into() }
    }

    /// Whether the model is told that the call did not succeed.
    pub fn is_error(&self) -> bool {
        match self {
            Self::ErrorText { .. } | Self::ErrorJson { .. } | Self::ExecutionDenied { .. } => true,
            Self::Text { .. } | Self::Json { .. } | Self::Content { .. } => false,
        }
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::Text { text }
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        Self::Json { value }
    }
}

impl From<Vec<ContentPart>> for ToolOutput {
    fn from(parts: Vec<ContentPart>) -> Self {
        Self::Content { parts }
    }
}

/// A call's output with what the model sees of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallOutput {
    /// What the tool said, whole.
    pub output: Stored<ToolOutput>,
    /// What the model is given instead: a mapped or shortened output. `None`: the output itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_view: Option<Box<ToolOutput>>,
    /// A remark for the model beside the output, for example a dropped document edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<ToolOutput> for CallOutput {
    fn from(output: ToolOutput) -> Self {
        Self {
            output: Stored::Inline(output),
            model_view: None,
            note: None,
        }
    }
}

/// The input of a call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CallInput {
    /// Well-formed JSON.
    Json(Value),
    /// Text that is not JSON; the tool does not run.
    Malformed {
        /// The text.
        text: String,
        /// What the parser said.
        error: String,
    },
}

/// A call that a model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProposedCall {
    /// The provider's own id of the call; only replayed to the provider.
    pub provider_call_id: String,
    /// Name of the tool, as the model wrote it.
    pub tool: String,
    /// Arguments.
    pub input: Stored<CallInput>,
}

/// One part of a model's reply, in the order it came.
///
/// `native` is what the provider's own item holds besides the common fields, kept by its wire so
/// that the next request can replay the item exactly (signatures, item ids, encrypted reasoning).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ReplyPart {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
        /// Rest of the provider's item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Value>,
    },
    /// The model's reasoning, as far as it is shown.
    Reasoning {
        /// Shown text; may be empty.
        text: String,
        /// Rest of the provider's item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Value>,
    },
    /// The place of `calls[index]` among the parts.
    Call {
        /// Index into [`ModelReply::calls`].
        index: u16,
        /// Rest of the provider's item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Value>,
    },
    /// A tool that the provider ran itself.
    ProviderTool {
        /// The provider's id of the call.
        id: String,
        /// Tool name.
        name: String,
        /// Arguments.
        input: Value,
        /// Result, when it came in the same reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
        /// The provider's items.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Value>,
    },
    /// An item that only the provider can read.
    Opaque {
        /// The provider's item.
        native: Value,
    },
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Finish {
    /// It was done.
    Stop,
    /// It asks for tool calls.
    ToolCalls,
    /// It reached its output limit.
    Length,
    /// It, or the provider's filter, refused.
    Refusal,
    /// It paused within a tool of its provider and goes on when its reply is sent back.
    Paused,
    /// Anything else the provider says.
    Other,
}

/// Tokens, as the provider counts them. `input` includes what was read from and written to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// All input tokens.
    pub input_tokens: u64,
    /// All output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Output tokens spent on reasoning.
    #[serde(default)]
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Input and output together.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds another count, saturating.
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self
            .cache_read_tokens
            .saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self
            .cache_write_tokens
            .saturating_add(other.cache_write_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}

/// A complete reply of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelReply {
    /// Which wire wrote the `native` parts, for example `anthropic`; another wire leaves them out.
    pub wire: String,
    /// The model as the provider names it.
    pub model: String,
    /// Parts in order.
    pub parts: Vec<Stored<ReplyPart>>,
    /// Calls asked for, at most [`crate::limits::CALLS_PER_REPLY_MAX`].
    pub calls: Vec<ProposedCall>,
    /// Why it stopped.
    pub finish: Finish,
    /// What it cost.
    pub usage: Usage,
}
