//! What the model is shown: the history since the last compaction, in shared parts.

use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Serialize};

use crate::command::PackedItems;
use crate::content::{CallInput, CallOutput, Content, ContentPart, ReplyPart, Stored, ToolOutput};
use crate::id::{CallId, MessageId, Seq, TurnId};

/// The history that the next model call is built from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Transcript {
    /// Items in order.
    pub items: Vector<Arc<Item>>,
    /// Estimated tokens of all items.
    pub tokens: u64,
    /// What the model must be told before its next call, in order.
    pub notes: Vector<String>,
}

/// One item with the number of the event it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Number of its event; of the last of them when several make one item.
    pub seq: Seq,
    /// Estimated tokens.
    pub tokens: u64,
    /// What it is.
    pub body: ItemBody,
}

/// The kinds of item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ItemBody {
    /// A user's message.
    User {
        /// The turn that it asked for or joined.
        turn: TurnId,
        /// Its id.
        message: MessageId,
        /// What it says.
        content: Arc<Content>,
    },
    /// A model's reply.
    Reply {
        /// In which turn.
        turn: TurnId,
        /// In which step.
        step: u32,
        /// Which wire can read the `native` parts.
        wire: String,
        /// The model as the provider names it.
        model: String,
        /// What it said.
        parts: Vec<Stored<ReplyPart>>,
        /// What it asked for.
        calls: Vec<TranscriptCall>,
    },
    /// The results of all calls of the reply before it, in the order asked.
    Results {
        /// In which turn.
        turn: TurnId,
        /// The results.
        results: Vec<CallResult>,
    },
    /// Something the model is told between turns or steps, as if by the user.
    Note {
        /// The text.
        text: String,
    },
    /// A summary of all before it.
    Summary {
        /// The text.
        summary: Stored<String>,
    },
    /// Several items kept as one blob.
    Packed {
        /// Where they are.
        packed: PackedItems,
    },
}

/// A call as the model asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptCall {
    /// Its id.
    pub id: CallId,
    /// The provider's own id.
    pub provider_call_id: String,
    /// Name of the tool.
    pub tool: String,
    /// Arguments.
    pub input: Arc<Stored<CallInput>>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// Which call.
    pub id: CallId,
    /// The provider's own id.
    pub provider_call_id: String,
    /// Name of the tool.
    pub tool: String,
    /// How it ended.
    pub settlement: crate::event::Settlement,
    /// What the model is told.
    pub output: CallOutput,
}

impl Transcript {
    /// Adds an item.
    pub(crate) fn push(&mut self, seq: Seq, body: ItemBody) {
        let tokens = estimate(&body);
        self.tokens = self.tokens.saturating_add(tokens);
        self.items.push_back(Arc::new(Item { seq, tokens, body }));
    }

    /// Turns waiting notes into items.
    pub(crate) fn flush_notes(&mut self, seq: Seq) {
        for text in std::mem::take(&mut self.notes) {
            self.push(seq, ItemBody::Note { text });
        }
    }

    /// Replaces all items up to `through` by a summary.
    pub(crate) fn compact(&mut self, through: Seq, summary: Stored<String>) {
        let kept = self
            .items
            .iter()
            .filter(|item| item.seq > through)
            .cloned()
            .collect();
        let rest = std::mem::replace(&mut self.items, kept);
        let removed: u64 = rest
            .iter()
            .filter(|item| item.seq <= through)
            .map(|item| item.tokens)
            .sum();
        self.tokens = self.tokens.saturating_sub(removed);
        let body = ItemBody::Summary { summary };
        let tokens = estimate(&body);
        self.tokens = self.tokens.saturating_add(tokens);
        self.items.push_front(Arc::new(Item {
            seq: through,
            tokens,
            body,
        }));
    }

    /// Drops all items from `to` on. A packed run that goes over `to` is cut, not dropped.
    pub(crate) fn rewind(&mut self, to: Seq) {
        while self.items.last().is_some_and(|item| item.seq >= to) {
            let Some(item) = self.items.pop_back() else {
                return;
            };
            self.tokens = self.tokens.saturating_sub(item.tokens);
            if let ItemBody::Packed { packed } = &item.body
                && packed.first_seq < to
            {
                let last_seq = Seq(to.0.saturating_sub(1));
                let packed = PackedItems {
                    last_seq,
                    ..packed.clone()
                };
                self.push(last_seq, ItemBody::Packed { packed });
                return;
            }
        }
    }

    /// The last event that a compaction may stand for, keeping about `keep_tokens` of the newest
    /// items; never between a reply and its results. `None`: there is nothing to summarise.
    pub fn compaction_boundary(&self, keep_tokens: u64) -> Option<Seq> {
        let mut kept = 0_u64;
        let mut boundary = None;
        let newest_first = self.items.iter().rev();
        for (item, older) in newest_first.clone().zip(newest_first.skip(1)) {
            kept = kept.saturating_add(item.tokens);
            let splits_step =
                matches!(older.body, ItemBody::Reply { ref calls, .. } if !calls.is_empty());
            // Items of one event stay together: the boundary is an event's number.
            if kept >= keep_tokens && !splits_step && older.seq < item.seq {
                boundary = Some(older.seq);
                break;
            }
        }
        // A summary alone is not summarised again.
        let worth_it = |&boundary: &Seq| {
            self.items
                .iter()
                .take_while(|item| item.seq <= boundary)
                .any(|item| !is_summary(item))
        };
        boundary.filter(worth_it).or_else(|| self.whole_boundary())
    }

    /// The newest event, when everything may be summarised.
    fn whole_boundary(&self) -> Option<Seq> {
        let last = self.items.last()?;
        let only_summary = self.items.len() == 1 && is_summary(last);
        let open_step = matches!(last.body, ItemBody::Reply { ref calls, .. } if !calls.is_empty());
        if only_summary || open_step {
            None
        } else {
            Some(last.seq)
        }
    }
}

fn is_summary(item: &Item) -> bool {
    matches!(item.body, ItemBody::Summary { .. })
}

/// Tokens of a text of this many bytes, by the usual rule of thumb of four bytes a token.
fn text_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

fn stored_tokens<T>(stored: &Stored<T>, inline: impl FnOnce(&T) -> u64) -> u64 {
    match stored {
        Stored::Inline(value) => inline(value),
        Stored::Blob(blob) => blob.size_bytes.div_ceil(4),
    }
}

fn json_tokens(value: &impl Serialize) -> u64 {
    serde_json::to_string(value).map_or(0, |text| text_tokens(text.len()))
}

fn estimate(body: &ItemBody) -> u64 {
    /// Roles, separators and the like.
    const FRAME_TOKENS: u64 = 4;
    let content = match body {
        ItemBody::User { content, .. } => content
            .iter()
            .map(|part| stored_tokens(part, part_tokens))
            .sum(),
        ItemBody::Reply { parts, calls, .. } => {
            let parts: u64 = parts
                .iter()
                .map(|part| stored_tokens(part, json_tokens))
                .sum();
            let calls: u64 = calls
                .iter()
                .map(|call| stored_tokens(&call.input, json_tokens))
                .sum();
            parts.saturating_add(calls)
        }
        ItemBody::Results { results, .. } => results
            .iter()
            .map(|result| output_tokens(&result.output))
            .sum(),
        ItemBody::Note { text } => text_tokens(text.len()),
        ItemBody::Summary { summary } => stored_tokens(summary, |text| text_tokens(text.len())),
        ItemBody::Packed { packed } => packed.tokens,
    };
    content.saturating_add(FRAME_TOKENS)
}

fn part_tokens(part: &ContentPart) -> u64 {
    match part {
        ContentPart::Text { text } => text_tokens(text.len()),
        ContentPart::Json { value } => json_tokens(value),
        // Providers bill an image by its size in pixels; this is near their common upper bound.
        ContentPart::File { .. } => 1_500,
    }
}

fn output_tokens(output: &CallOutput) -> u64 {
    let note = output
        .note
        .as_ref()
        .map_or(0, |note| text_tokens(note.len()));
    let shown = match &output.model_view {
        Some(view) => tool_output_tokens(view),
        None => stored_tokens(&output.output, tool_output_tokens),
    };
    note.saturating_add(shown)
}

fn tool_output_tokens(output: &ToolOutput) -> u64 {
    match output {
        ToolOutput::Text { text } | ToolOutput::ErrorText { text } => text_tokens(text.len()),
        ToolOutput::Json { value } | ToolOutput::ErrorJson { value } => json_tokens(value),
        ToolOutput::Content { parts } => parts.iter().map(part_tokens).sum(),
        ToolOutput::ExecutionDenied { reason } => reason
            .as_ref()
            .map_or(8, |reason| text_tokens(reason.len())),
    }
}
