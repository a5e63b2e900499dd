//! From a session's transcript to a request: everything loaded, every call answered.

pub mod compaction;
pub mod guard;
mod history;
pub mod kept;
mod load;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use steadfast_core::command::ToolChoice;
use steadfast_core::content::BlobRef;
use steadfast_core::id::SessionKey;
use steadfast_core::input::{FailureClass, ModelFailure};
use steadfast_core::session::{Session, TurnPhase};

use crate::failure;
use crate::native::guard::InvalidRequest;
use crate::native::kept::KeptHistory;
use crate::request::{ModelRequest, Purpose, ToolDeclaration};

/// Where blobs of a session are read.
#[async_trait]
pub trait BlobSource: Send + Sync {
    /// The bytes of a blob, whole and with the hash that `blob` says.
    async fn load(&self, session: &SessionKey, blob: BlobRef) -> Result<Bytes, BlobError>;
}

/// Why a blob is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// The store does not answer; the blob may be there.
    #[error("the blob store does not answer: {0}")]
    Unavailable(String),
    /// The store answers that there is no such blob, or not with that hash.
    #[error("blob {0} is missing or damaged")]
    Missing(String),
}

/// How an agent asks its model.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// The provider's own name of the model.
    pub model: String,
    /// System instructions.
    pub instructions: String,
    /// Tools offered, in a stable order.
    pub tools: Arc<Vec<ToolDeclaration>>,
    /// Output tokens of one reply, at most.
    pub output_tokens_max: Option<u64>,
    /// More options of the wire.
    pub options: Value,
    /// Whether the model calls tools.
    pub tool_choice: ToolChoice,
    /// JSON Schema of the answer.
    pub output_schema: Option<Arc<Value>>,
}

/// Why no request could be made of a transcript. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A blob cannot be read now.
    #[error("the history cannot be loaded now: {0}")]
    Unavailable(#[source] BlobError),
    /// A blob is gone.
    #[error("the history cannot be loaded: {0}")]
    Missing(#[source] BlobError),
    /// A blob holds something else than the transcript says.
    #[error("blob {hash} does not hold {what}: {detail}")]
    Undecodable {
        /// Its hash.
        hash: String,
        /// What was expected.
        what: &'static str,
        /// What the decoder said.
        detail: String,
    },
    /// A tool must be called that is not offered.
    #[error(
        "the model must call {tool:?}, which is not offered in this step: name an active tool, or \
         leave the choice to the model"
    )]
    ToolNotOffered {
        /// Its name.
        tool: String,
    },
    /// The request would not be valid.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
}

impl From<BlobError> for BuildError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Unavailable(_) => Self::Unavailable(error),
            BlobError::Missing(_) => Self::Missing(error),
        }
    }
}

impl From<BuildError> for ModelFailure {
    fn from(error: BuildError) -> Self {
        let (class, code) = match &error {
            BuildError::Unavailable(_) => (
                FailureClass::Retryable {
                    retry_after_ms: None,
                },
                "history_unavailable",
            ),
            BuildError::Missing(_) | BuildError::Undecodable { .. } => {
                (FailureClass::Fatal, "history_damaged")
            }
            BuildError::ToolNotOffered { .. } => (FailureClass::Fatal, "tool_not_offered"),
            BuildError::Invalid(_) => (FailureClass::Fatal, "invalid_request"),
        };
        failure::failure(class, code, error.to_string())
    }
}

/// The request for the next step of the open turn.
///
/// Proven as by [`guard::prove`]: a request that it gives may leave. What was built for the request
/// before is kept and gone on from, so that a step costs what it adds and not what came before.
pub async fn turn_request(
    session: &Session,
    settings: &ModelSettings,
    blobs: &dyn BlobSource,
    kept: &KeptHistory,
) -> Result<ModelRequest, BuildError> {
    if let Some(tool) = settings.tool_choice.tool()
        && !settings.tools.iter().any(|offered| offered.name == tool)
    {
        let tool = tool.to_owned();
        return Err(BuildError::ToolNotOffered { tool });
    }
    let mut built = kept.take(&session.transcript.items);
    let added = built.add(&session.key, &session.transcript.items, blobs);
    if let Err(error) = added.await {
        // What was built before still holds.
        if matches!(error, BuildError::Unavailable(_)) {
            kept.put(built);
        }
        return Err(error);
    }
    let request = ModelRequest {
        session: session.key.clone(),
        model: settings.model.clone(),
        instructions: instructions(settings),
        tools: Arc::clone(&settings.tools),
        items: built.history(),
        output_tokens_max: settings.output_tokens_max,
        options: settings.options.clone(),
        purpose: Purpose::Turn,
        tool_choice: settings.tool_choice.clone(),
        output_schema: settings.output_schema.clone(),
        attempt: attempt(session),
    };
    built.prove(&request)?;
    kept.put(built);
    Ok(request)
}

/// What the model is told before all else. A schema is told to every model: not each provider can
/// be made to keep to one.
fn instructions(settings: &ModelSettings) -> String {
    let said = &settings.instructions;
    let Some(schema) = &settings.output_schema else {
        return said.clone();
    };
    let gap = if said.is_empty() { "" } else { "\n\n" };
    format!(
        "{said}{gap}Once you have what you need, answer with one JSON value that fits this JSON \
         Schema, and with nothing before or after it:\n{schema}"
    )
}

fn attempt(session: &Session) -> u32 {
    match session.turn.as_ref().map(|turn| turn.phase) {
        Some(TurnPhase::Calling { attempt }) => attempt,
        _ => 1,
    }
}
