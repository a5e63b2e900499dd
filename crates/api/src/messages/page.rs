//! One page of a conversation, read from the log.

use std::ops::Range;

use steadfast_core::event::Event;
use steadfast_core::id::{Seq, SessionKey, Timestamp};
use steadfast_core::transcript::Item;

use super::fold::{Draft, Fold};
use super::load;
use crate::backend::Backend;
use crate::error::Problem;

/// Records read at once.
const RECORDS_MAX: usize = 64;

/// Which messages of a conversation are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// The newest ones.
    Newest,
    /// The newest ones before this position.
    Before(usize),
    /// The oldest ones after this position.
    After(usize),
}

impl Window {
    /// The positions of the page, of a conversation of `len` messages.
    pub(crate) fn range(self, len: usize, limit: usize) -> Range<usize> {
        match self {
            Self::Newest => len.saturating_sub(limit)..len,
            Self::Before(index) => {
                let end = index.min(len);
                end.saturating_sub(limit)..end
            }
            Self::After(index) => {
                let start = index.saturating_add(1).min(len);
                start..start.saturating_add(limit).min(len)
            }
        }
    }
}

/// A page.
pub(crate) struct Page {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) range: Range<usize>,
    pub(crate) len: usize,
}

/// Reads a page of the conversation as of the event `until`.
///
/// The log is read twice, first for places only: a rewind further on may take messages away, and
/// only one page of bodies shall be in memory.
pub(crate) async fn read(
    backend: &Backend,
    key: &SessionKey,
    until: Seq,
    window: Window,
    limit: usize,
) -> Result<Page, Problem> {
    let outline = fold(backend, key, until, 0..0).await?;
    let len = outline.len();
    let range = window.range(len, limit);
    let drafts = if range.is_empty() {
        Vec::new()
    } else {
        fold(backend, key, until, range.clone()).await?.into_kept()
    };
    Ok(Page { drafts, range, len })
}

async fn fold(
    backend: &Backend,
    key: &SessionKey,
    until: Seq,
    keep: Range<usize>,
) -> Result<Fold, Problem> {
    let mut fold = Fold::keeping(keep);
    let mut cursor = Seq(0);
    while cursor < until {
        let records = backend.records(key, cursor, RECORDS_MAX).await?;
        if records.is_empty() {
            break;
        }
        for record in records {
            let mut seq = record.first_seq;
            for entry in &record.entries {
                for event in &entry.events {
                    if seq > cursor && seq <= until {
                        copy(backend, key, &mut fold, seq, entry.at, event).await?;
                        fold.event(seq, entry.at, record.epoch, event);
                    }
                    seq = seq.next();
                }
            }
            cursor = cursor.max(record.last_seq());
        }
    }
    Ok(fold)
}

/// Adds the transcript that an event copies.
async fn copy(
    backend: &Backend,
    key: &SessionKey,
    fold: &mut Fold,
    seq: Seq,
    at: Timestamp,
    event: &Event,
) -> Result<(), Problem> {
    let Event::TranscriptForked { origin } = event else {
        return Ok(());
    };
    for packed in &origin.transcript {
        let items: Vec<Item> = load::read(backend, key, packed.blob).await?;
        for item in items.iter().filter(|item| item.seq <= packed.last_seq) {
            fold.copied(seq, at, item);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_within_the_conversation() {
        for (window, len, expected) in [
            (Window::Newest, 5, 2..5),
            (Window::Newest, 2, 0..2),
            (Window::Newest, 0, 0..0),
            (Window::Before(3), 5, 0..3),
            (Window::Before(4), 5, 1..4),
            (Window::Before(0), 5, 0..0),
            (Window::Before(99), 5, 2..5),
            (Window::After(0), 5, 1..4),
            (Window::After(3), 5, 4..5),
            (Window::After(4), 5, 5..5),
            (Window::After(usize::MAX), 5, 5..5),
        ] {
            assert_eq!(window.range(len, 3), expected, "{window:?} of {len}");
        }
    }
}
