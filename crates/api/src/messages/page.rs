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

/// Bytes of the messages of one page, blobs left out.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

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
    /// The positions of the page, of a conversation whose messages have these sizes: at most
    /// `limit` of them, and no more bytes than one answer may have, but at least one message.
    fn range(self, sizes: &[usize], limit: usize) -> Range<usize> {
        let newest_before = |end: usize| {
            let sizes = sizes.iter().take(end).rev();
            end - fitting(sizes, limit)..end
        };
        match self {
            Self::Newest => newest_before(sizes.len()),
            Self::Before(index) => newest_before(index.min(sizes.len())),
            Self::After(index) => {
                let start = index.saturating_add(1).min(sizes.len());
                start..start + fitting(sizes.iter().skip(start), limit)
            }
        }
    }
}

/// How many messages of these sizes fit one answer.
fn fitting<'a>(sizes: impl Iterator<Item = &'a usize>, limit: usize) -> usize {
    let mut total = 0_usize;
    let fits = |(count, size): &(usize, &usize)| {
        total = total.saturating_add(**size);
        *count == 0 || total <= PAGE_BYTES_MAX
    };
    sizes.take(limit).enumerate().take_while(fits).count()
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
    let sizes = outline.sizes();
    let len = sizes.len();
    let range = window.range(&sizes, limit);
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
            let sizes = vec![1; len];
            assert_eq!(window.range(&sizes, 3), expected, "{window:?} of {len}");
        }
    }

    #[test]
    fn a_page_ends_where_an_answer_is_full() {
        let half = PAGE_BYTES_MAX / 2;
        let sizes = [half, half, 1, 3 * half, half];
        for (window, expected) in [
            (Window::Newest, 4..5),
            (Window::Before(4), 3..4),
            (Window::Before(3), 1..3),
            (Window::Before(2), 0..2),
            (Window::After(0), 1..3),
            (Window::After(2), 3..4),
        ] {
            assert_eq!(window.range(&sizes, 9), expected, "{window:?}");
        }
    }
}
