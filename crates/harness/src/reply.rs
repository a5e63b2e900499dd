//! What all wires do alike with a finished reply.

use serde_json::Value;
use steadfast_core::content::{
    CallInput, Finish, ModelReply, ProposedCall, ReplyPart, Stored, Usage,
};
use steadfast_core::input::ModelFailure;
use steadfast_core::limits::{CALLS_PER_REPLY_MAX, PARTS_PER_INPUT_MAX};

use crate::failure;

/// A reply whose last event came.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) wire: String,
    pub(crate) model: String,
    pub(crate) parts: Vec<ReplyPart>,
    pub(crate) calls: Vec<ProposedCall>,
    pub(crate) usage: Usage,
}

impl Draft {
    /// Adds a call and its place among the parts.
    pub(crate) fn call(
        &mut self,
        provider_call_id: String,
        tool: String,
        input: CallInput,
        native: Option<Value>,
    ) {
        // Saturates far above the limit that `finish` enforces.
        let index = u16::try_from(self.calls.len()).unwrap_or(u16::MAX);
        self.parts.push(ReplyPart::Call { index, native });
        self.calls.push(ProposedCall {
            provider_call_id,
            tool,
            input: Stored::Inline(input),
        });
    }

    /// The reply, unless it is larger than a session takes.
    pub(crate) fn finish(self, finish: Finish) -> Result<ModelReply, ModelFailure> {
        if self.calls.len() > CALLS_PER_REPLY_MAX || self.parts.len() > PARTS_PER_INPUT_MAX {
            return Err(failure::retryable(
                "reply_too_large",
                format!(
                    "the reply has {} calls and {} parts, more than a session takes; it is asked for again",
                    self.calls.len(),
                    self.parts.len()
                ),
            ));
        }
        Ok(ModelReply {
            wire: self.wire,
            model: self.model,
            parts: self.parts.into_iter().map(Stored::Inline).collect(),
            calls: self.calls,
            finish,
            usage: self.usage,
        })
    }
}

/// The input that a model wrote as text.
///
/// `cut_off` says that the reply ended inside it: then no text is not "no arguments".
pub(crate) fn call_input(text: &str, cut_off: bool) -> CallInput {
    let malformed = |error: String| CallInput::Malformed {
        text: text.to_owned(),
        error,
    };
    if text.trim().is_empty() {
        return if cut_off {
            malformed("the reply ended before the arguments".to_owned())
        } else {
            CallInput::Json(Value::Object(serde_json::Map::new()))
        };
    }
    match serde_json::from_str(text) {
        Ok(Value::Null) => CallInput::Json(Value::Object(serde_json::Map::new())),
        Ok(value) => CallInput::Json(value),
        Err(error) => malformed(error.to_string()),
    }
}
