//! Moves what is too large for the log into blobs, before anything is decided about it.

mod bounds;

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use steadfast_core::command::{CallAnswer, CommandBody};
use steadfast_core::content::{BlobRef, CallOutput, ContentPart, ModelReply, Stored, ToolOutput};
use steadfast_core::id::SessionKey;
use steadfast_core::input::CallTriage;
use steadfast_core::limits::{
    ANSWERS_PER_COMMAND_MAX, INLINE_BYTES_MAX, INPUT_INLINE_BYTES_MAX, PARTS_PER_INPUT_MAX,
};
use steadfast_protocol::encoded_bytes;
use steadfast_store::error::WriteError;
use thiserror::Error;
use tokio::time::Instant;

use crate::host::{Host, backoff};

/// What a model is shown of a large result: so many bytes of its beginning and of its end.
const SHOWN_BYTES: usize = INLINE_BYTES_MAX / 2;
/// Levels of JSON in a result, at most; deeper ones become text.
const DEPTH_MAX: usize = 100;
/// A command, at most, after its parts were moved into blobs.
const COMMAND_BYTES_MAX: usize = INPUT_INLINE_BYTES_MAX + INLINE_BYTES_MAX;
/// The answers of one command together, at most.
const ANSWERS_BYTES_MAX: usize = INPUT_INLINE_BYTES_MAX;

/// Why an input could not be made small enough.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum SpillError {
    /// It never can be.
    #[error("{0}")]
    TooLarge(String),
    /// The blob could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Whether a failed write is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Once: somebody waits who can ask again.
    Once,
    /// As long as an append: what is written must not be lost.
    Long,
}

/// Writes what is too large of one input.
pub(crate) struct Spill<'a> {
    pub(crate) host: &'a Host,
    pub(crate) key: &'a SessionKey,
    pub(crate) patience: Patience,
}

impl Spill<'_> {
    /// Whether a command holds a part that must go into a blob.
    pub(crate) fn is_needed(&self, body: &CommandBody) -> bool {
        let bytes: usize = match body {
            CommandBody::Submit { content, .. } => content.iter().map(size).sum(),
            CommandBody::SettleCall { output, .. } => size(&output.output),
            CommandBody::AnswerCalls { answers } => results(answers).map(size).sum(),
            _ => 0,
        };
        bytes > INLINE_BYTES_MAX
    }

    /// Makes a command small enough.
    pub(crate) async fn command(&self, body: &mut CommandBody) -> Result<(), SpillError> {
        match body {
            CommandBody::Submit { content, .. } => {
                if content.len() > PARTS_PER_INPUT_MAX {
                    let parts = content.len();
                    return Err(SpillError::TooLarge(format!(
                        "a message of {parts} parts; {PARTS_PER_INPUT_MAX} are taken"
                    )));
                }
                self.parts(content.iter_mut().map(|part| part as _).collect())
                    .await?;
            }
            CommandBody::SettleCall { output, .. } => self.output(output).await?,
            CommandBody::AnswerCalls { answers } => return self.answers(answers).await,
            CommandBody::Create { .. }
            | CommandBody::Fork { .. }
            | CommandBody::Withdraw { .. }
            | CommandBody::Cancel { .. }
            | CommandBody::Compact
            | CommandBody::DecideApproval { .. }
            | CommandBody::SkipCall { .. }
            | CommandBody::RetryCall { .. }
            | CommandBody::Delete => {}
        }
        let bytes = encoded_bytes(body).map_err(|error| SpillError::TooLarge(error.to_string()))?;
        if bytes > COMMAND_BYTES_MAX {
            return Err(SpillError::TooLarge(format!(
                "{bytes} bytes besides its parts; {COMMAND_BYTES_MAX} are taken"
            )));
        }
        Ok(())
    }

    /// Makes several answers small enough to be decided in one Record, or says that they are not.
    async fn answers(&self, answers: &mut [CallAnswer]) -> Result<(), SpillError> {
        for answer in answers.iter_mut() {
            if let CallAnswer::Result { output, .. } = answer {
                self.output(output).await?;
            }
        }
        // Each approval adds its triage, and the words for a call that may no longer run.
        let bytes =
            encoded_bytes(&answers).map_err(|error| SpillError::TooLarge(error.to_string()))?;
        if answers.len() > ANSWERS_PER_COMMAND_MAX || bytes > ANSWERS_BYTES_MAX {
            return Err(SpillError::TooLarge(format!(
                "{} answers of {bytes} bytes in one command; {ANSWERS_PER_COMMAND_MAX} of \
                 {ANSWERS_BYTES_MAX} bytes are taken",
                answers.len()
            )));
        }
        Ok(())
    }

    /// Makes a model's reply small enough, together with what is decided about its calls.
    pub(crate) async fn reply(
        &self,
        reply: &mut ModelReply,
        triage: &mut [CallTriage],
    ) -> Result<(), SpillError> {
        bounds::shorten(reply, triage);
        let inline_max = bounds::inline_bytes_max(reply, triage)?;
        self.move_some(reply_parts(reply).collect(), inline_max)
            .await
    }

    /// Makes a tool's output small enough, and says what the model is shown of it.
    pub(crate) async fn output(&self, output: &mut CallOutput) -> Result<(), SpillError> {
        if let Some(view) = &output.model_view
            && let Some(shorter) = shortened(view, None)
        {
            output.model_view = Some(Box::new(shorter));
        }
        let Stored::Inline(whole) = &mut output.output else {
            return Ok(());
        };
        flatten(whole);
        if let Some(view) = &mut output.model_view {
            flatten(view);
        }
        if size(&output.output) <= INLINE_BYTES_MAX {
            return Ok(());
        }
        let Stored::Inline(whole) = &output.output else {
            return Ok(());
        };
        let blob = self.put(json(whole)?).await?;
        if output.model_view.is_none() {
            output.model_view = shortened(whole, Some(blob)).map(Box::new);
        }
        output.output = Stored::Blob(blob);
        Ok(())
    }

    /// Makes a text small enough.
    pub(crate) async fn text(&self, text: String) -> Result<Stored<String>, SpillError> {
        let mut text = Stored::Inline(text);
        self.parts(vec![&mut text]).await?;
        Ok(text)
    }

    async fn parts(&self, parts: Vec<&mut dyn Part>) -> Result<(), SpillError> {
        self.move_some(parts, INPUT_INLINE_BYTES_MAX).await
    }

    async fn move_some(
        &self,
        parts: Vec<&mut dyn Part>,
        inline_max: usize,
    ) -> Result<(), SpillError> {
        for part in to_move(parts, inline_max) {
            let blob = self.put(part.json()?).await?;
            part.replace(blob);
        }
        Ok(())
    }

    async fn put(&self, bytes: Vec<u8>) -> Result<BlobRef, WriteError> {
        let bytes = Bytes::from(bytes);
        let options = &self.host.options;
        let patience = match self.patience {
            Patience::Once => Duration::ZERO,
            Patience::Long => options.append_patience,
        };
        let started = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            match self.host.stores.blobs.put(self.key, bytes.clone()).await {
                Ok(blob) => return Ok(blob),
                Err(error @ WriteError::Refused(_)) => return Err(error),
                Err(error) if started.elapsed() >= patience => return Err(error),
                Err(error) => {
                    tracing::warn!(session = %self.key, %error, tries, "blob not written, again");
                    let wait = backoff(options.append_retry_min, options.append_retry_max, tries);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// The results among several answers.
fn results(answers: &[CallAnswer]) -> impl Iterator<Item = &Stored<ToolOutput>> {
    answers.iter().filter_map(|answer| match answer {
        CallAnswer::Result { output, .. } => Some(&output.output),
        CallAnswer::Approval { .. } => None,
    })
}

/// All of a reply that may stand in blobs.
fn reply_parts(reply: &mut ModelReply) -> impl Iterator<Item = &mut dyn Part> {
    let parts = reply.parts.iter_mut().map(|part| part as &mut dyn Part);
    let inputs = reply.calls.iter_mut().map(|call| &mut call.input);
    parts.chain(inputs.map(|input| input as &mut dyn Part))
}

/// Each part that is too large, and the largest of the others until the rest fits together.
fn to_move(parts: Vec<&mut dyn Part>, inline_max: usize) -> Vec<&mut dyn Part> {
    let mut sized: Vec<(usize, &mut dyn Part)> =
        parts.into_iter().map(|part| (part.size(), part)).collect();
    let mut inline: usize = sized
        .iter()
        .map(|(bytes, _)| *bytes)
        .fold(0, usize::saturating_add);
    sized.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let moved = sized.into_iter().take_while(|(bytes, _)| {
        let stays = *bytes <= INLINE_BYTES_MAX && inline <= inline_max;
        inline = inline.saturating_sub(*bytes);
        !stays && *bytes > bounds::REFERENCE_BYTES
    });
    moved.map(|(_, part)| part).collect()
}

/// A part of an input that may stand in a blob.
trait Part: Send {
    /// Bytes that it takes in a Record.
    fn size(&self) -> usize;
    /// What its blob holds.
    fn json(&self) -> Result<Vec<u8>, SpillError>;
    /// Its place is in a blob now.
    fn replace(&mut self, blob: BlobRef);
}

impl<T: Serialize + Send> Part for Stored<T> {
    fn size(&self) -> usize {
        size(self)
    }

    fn json(&self) -> Result<Vec<u8>, SpillError> {
        match self {
            Self::Inline(value) => json(value),
            // Already small: its size is that of a reference, below every bound.
            Self::Blob(blob) => json(blob),
        }
    }

    fn replace(&mut self, blob: BlobRef) {
        if matches!(self, Self::Inline(_)) {
            *self = Self::Blob(blob);
        }
    }
}

/// What cannot be measured is treated as too large; encoding it then says why.
fn size<T: Serialize>(value: &Stored<T>) -> usize {
    match value {
        Stored::Inline(value) => encoded_bytes(value).unwrap_or(usize::MAX),
        Stored::Blob(_) => 0,
    }
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, SpillError> {
    serde_json::to_vec(value).map_err(|error| SpillError::TooLarge(error.to_string()))
}

/// Makes text of JSON that is nested too deeply to be read back.
fn flatten(output: &mut ToolOutput) {
    let text = match output {
        ToolOutput::Json { value } if is_deep(value, DEPTH_MAX) => value.to_string(),
        ToolOutput::ErrorJson { value } if is_deep(value, DEPTH_MAX) => {
            *output = ToolOutput::error(value.to_string());
            return;
        }
        ToolOutput::Content { parts } => {
            for part in parts {
                if let ContentPart::Json { value } = part
                    && is_deep(value, DEPTH_MAX)
                {
                    let text = value.to_string();
                    *part = ContentPart::Text { text };
                }
            }
            return;
        }
        _ => return,
    };
    *output = ToolOutput::text(text);
}

fn is_deep(value: &Value, levels: usize) -> bool {
    let inner = |value: &Value| levels == 0 || is_deep(value, levels - 1);
    match value {
        Value::Array(values) => values.iter().any(inner),
        Value::Object(fields) => fields.values().any(inner),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The beginning and the end of a large output. `None`: it is not large, or holds files that the
/// model must see whole.
fn shortened(output: &ToolOutput, blob: Option<BlobRef>) -> Option<ToolOutput> {
    let (text, is_error) = match output {
        ToolOutput::Text { text } => (text.clone(), false),
        ToolOutput::ErrorText { text } => (text.clone(), true),
        ToolOutput::Json { value } => (value.to_string(), false),
        ToolOutput::ErrorJson { value } => (value.to_string(), true),
        ToolOutput::Content { parts } => (parts_text(parts)?, false),
        ToolOutput::ExecutionDenied { .. } => return None,
    };
    if text.len() <= INLINE_BYTES_MAX {
        return None;
    }
    let head = text.get(..text.floor_char_boundary(SHOWN_BYTES))?;
    let tail = text.get(text.ceil_char_boundary(text.len() - SHOWN_BYTES)..)?;
    let missing = text.len() - head.len() - tail.len();
    let whole = blob.map_or_else(String::new, |blob| {
        format!("; the whole result is kept as blob {}", blob.hash)
    });
    let text = format!(
        "{head}\n[... {missing} of {} bytes left out{whole}. To read more of it, call the tool \
         again and ask for a smaller part ...]\n{tail}",
        text.len()
    );
    Some(if is_error {
        ToolOutput::error(text)
    } else {
        ToolOutput::text(text)
    })
}

fn parts_text(parts: &[ContentPart]) -> Option<String> {
    let texts: Option<Vec<String>> = parts
        .iter()
        .map(|part| match part {
            ContentPart::Text { text } => Some(text.clone()),
            ContentPart::Json { value } => Some(value.to_string()),
            ContentPart::File { .. } => None,
        })
        .collect();
    texts.map(|texts| texts.join("\n"))
}
