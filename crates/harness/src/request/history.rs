//! The history of a request: shared by all requests of a session, of which each adds a little.

use std::sync::Arc;

use imbl::Vector;
use steadfast_core::content::{CallInput, ContentPart, ReplyPart, ToolOutput};

use super::RequestItem;

/// The items of a history, oldest first. Cloning is cheap, and so is adding to a clone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    entries: Vector<Arc<Entry>>,
}

/// An item, and what is known of all up to it.
#[derive(Debug, PartialEq)]
struct Entry {
    item: RequestItem,
    counts: Counts,
    /// Position of the newest thing said by the user, this one included.
    newest_user: Option<usize>,
}

/// What a part of a history holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Replies of the model.
    pub replies: usize,
    /// Results of calls.
    pub results: usize,
    /// Bytes of all texts, arguments and outputs; a file counts as a fixed few.
    pub text_bytes: usize,
}

impl History {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the newest item.
    pub fn push(&mut self, item: RequestItem) {
        let before = self.entries.last();
        let mut counts = before.map_or_else(Counts::default, |entry| entry.counts);
        counts.add(&item);
        let newest_user = match item {
            RequestItem::User { .. } => Some(self.entries.len()),
            RequestItem::Reply { .. } | RequestItem::Results { .. } => {
                before.and_then(|entry| entry.newest_user)
            }
        };
        self.entries.push_back(Arc::new(Entry {
            item,
            counts,
            newest_user,
        }));
    }

    /// All items.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &RequestItem> {
        self.entries.iter().map(|entry| &entry.item)
    }

    /// The item at this position.
    pub fn get(&self, position: usize) -> Option<&RequestItem> {
        self.entries.get(position).map(|entry| &entry.item)
    }

    /// The oldest item.
    pub fn first(&self) -> Option<&RequestItem> {
        self.get(0)
    }

    /// The newest item.
    pub fn last(&self) -> Option<&RequestItem> {
        self.entries.last().map(|entry| &entry.item)
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the whole history holds.
    pub fn counts(&self) -> Counts {
        let newest = self.entries.last();
        newest.map_or_else(Counts::default, |entry| entry.counts)
    }

    /// What stands after this position.
    pub fn counts_after(&self, position: usize) -> Counts {
        let (all, before) = (self.counts(), self.entries.get(position));
        let before = before.map_or_else(Counts::default, |entry| entry.counts);
        Counts {
            replies: all.replies.saturating_sub(before.replies),
            results: all.results.saturating_sub(before.results),
            text_bytes: all.text_bytes.saturating_sub(before.text_bytes),
        }
    }

    /// What the user said, newest first, each with its position; what lies between is not looked at.
    pub fn said_newest_first(&self) -> impl Iterator<Item = (usize, &[ContentPart])> {
        let newest = self.entries.last().and_then(|entry| entry.newest_user);
        let older = |position: &usize| {
            let before = self.entries.get(position.checked_sub(1)?)?;
            before.newest_user
        };
        std::iter::successors(newest, older).filter_map(|position| match self.get(position)? {
            RequestItem::User { parts } => Some((position, parts.as_slice())),
            RequestItem::Reply { .. } | RequestItem::Results { .. } => None,
        })
    }
}

impl FromIterator<RequestItem> for History {
    fn from_iter<I: IntoIterator<Item = RequestItem>>(items: I) -> Self {
        let mut history = Self::new();
        items.into_iter().for_each(|item| history.push(item));
        history
    }
}

impl From<Vec<RequestItem>> for History {
    fn from(items: Vec<RequestItem>) -> Self {
        items.into_iter().collect()
    }
}

impl Counts {
    fn add(&mut self, item: &RequestItem) {
        match item {
            RequestItem::User { parts } => {
                self.text_bytes += parts.iter().map(part_bytes).sum::<usize>();
            }
            RequestItem::Reply { parts, calls, .. } => {
                self.replies += 1;
                let said = parts.iter().map(|part| match part {
                    ReplyPart::Text { text, .. } | ReplyPart::Reasoning { text, .. } => text.len(),
                    ReplyPart::Call { .. }
                    | ReplyPart::ProviderTool { .. }
                    | ReplyPart::Opaque { .. } => 0,
                });
                let asked = calls.iter().map(|call| match &call.input {
                    CallInput::Json(value) => value.to_string().len(),
                    CallInput::Malformed { text, .. } => text.len(),
                });
                self.text_bytes += said.chain(asked).sum::<usize>();
            }
            RequestItem::Results { results } => {
                self.results += results.len();
                let told = results.iter().map(|result| output_bytes(&result.output));
                self.text_bytes += told.sum::<usize>();
            }
        }
    }
}

fn output_bytes(output: &ToolOutput) -> usize {
    match output {
        ToolOutput::Text { text } | ToolOutput::ErrorText { text } => text.len(),
        ToolOutput::Json { value } | ToolOutput::ErrorJson { value } => value.to_string().len(),
        ToolOutput::Content { parts } => parts.iter().map(part_bytes).sum(),
        ToolOutput::ExecutionDenied { reason } => reason.as_ref().map_or(0, String::len),
    }
}

fn part_bytes(part: &ContentPart) -> usize {
    /// What a picture costs in tokens, as bytes of text.
    const FILE_BYTES: usize = 1_500 * 4;
    match part {
        ContentPart::Text { text } => text.len(),
        ContentPart::Json { value } => value.to_string().len(),
        ContentPart::File { .. } => FILE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> RequestItem {
        RequestItem::User {
            parts: vec![ContentPart::Text { text: text.into() }],
        }
    }

    fn reply(text: &str) -> RequestItem {
        RequestItem::Reply {
            wire: "w".into(),
            model: "m".into(),
            parts: vec![ReplyPart::Text {
                text: text.into(),
                native: None,
            }],
            calls: Vec::new(),
        }
    }

    #[test]
    fn what_stands_after_a_position_is_counted() {
        let history: History = vec![user("one"), reply("four"), user("seven"), reply("x")].into();
        let counts = |replies, text_bytes| Counts {
            replies,
            results: 0,
            text_bytes,
        };
        assert_eq!(history.counts(), counts(2, 13));
        assert_eq!(history.counts_after(0), counts(2, 10));
        assert_eq!(history.counts_after(2), counts(1, 1));
        assert_eq!(history.counts_after(3), counts(0, 0));
    }

    #[test]
    fn what_the_user_said_comes_newest_first() {
        let items = vec![reply("a"), user("b"), reply("c"), reply("d"), user("e")];
        let history: History = items.into();
        let positions: Vec<usize> = history.said_newest_first().map(|(at, _)| at).collect();
        assert_eq!(positions, [4, 1]);
        assert_eq!(History::new().said_newest_first().count(), 0);
    }

    #[test]
    fn what_is_added_to_a_copy_is_not_in_the_other() {
        let one: History = vec![user("a")].into();
        let mut other = one.clone();
        other.push(reply("b"));
        assert_eq!((one.len(), other.len()), (1, 2));
        assert_ne!(one, other);
    }
}
