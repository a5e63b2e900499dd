//! One page of a conversation, read from the log.

use std::ops::Range;

use steadfast_core::event::Event;
use steadfast_core::id::{Seq, SessionKey, Timestamp};
use steadfast_core::session::Session;
use steadfast_core::transcript::Item;

use super::fold::{Draft, Fold};
use super::load;
use crate::backend::Backend;
use crate::error::Problem;

/// Records read at once.
pub(crate) const RECORDS_MAX: usize = 64;

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

/// Reads a page of the conversation as of the last event of this state, so many Records at
/// once.
///
/// Where each message stands is remembered from the page before and gone on from, so that only what
/// the log added since is read, and of the rest what the page itself says.
pub(crate) async fn read(
    backend: &Backend,
    (session, batch): (&Session, usize),
    window: Window,
    limit: usize,
) -> Result<Page, Problem> {
    let (key, until) = (&session.key, session.seq);
    let outline = outline(backend, session, batch).await?;
    let len = outline.len();
    let range = window.range(&outline.sizes(), limit);
    let drafts = match outline.span(&range) {
        Some(span) if !range.is_empty() => {
            let mut fold = outline.before(&span, range.clone());
            let from = Seq(span.from.0.saturating_sub(1));
            let end = until.min(span.end);
            fold_events(backend, key, &mut fold, (from, span.start, end), batch).await?;
            fold.into_kept()
        }
        Some(_) | None => Vec::new(),
    };
    Ok(Page { drafts, range, len })
}

/// Where the messages stand as of the event `until`.
async fn outline(backend: &Backend, session: &Session, batch: usize) -> Result<Fold, Problem> {
    let (key, until) = (&session.key, session.seq);
    let known = backend.outlines().through(key, until);
    // What was read of a part of the log that no longer counts, does not count.
    let known = known.filter(|(after, _)| session.lost_part(*after).is_none());
    let (after, mut fold) = known.unwrap_or_else(|| (Seq(0), Fold::keeping(0..0)));
    let span = (after, after, until);
    let reached = fold_events(backend, key, &mut fold, span, batch).await?;
    backend.outlines().keep(key, reached, fold.clone());
    Ok(fold)
}

/// Folds the events after the first number up to the last; of those before the second only what
/// arrives. Gives the last event that was there.
async fn fold_events(
    backend: &Backend,
    key: &SessionKey,
    fold: &mut Fold,
    (after, start, until): (Seq, Seq, Seq),
    batch: usize,
) -> Result<Seq, Problem> {
    let mut cursor = after;
    while cursor < until {
        let records = backend.records(key, cursor, batch).await?;
        if records.is_empty() {
            break;
        }
        for record in records {
            let mut seq = record.first_seq;
            for entry in &record.entries {
                for event in &entry.events {
                    if seq > cursor && seq <= until {
                        if seq < start {
                            fold.arrival(seq, event);
                        } else {
                            copy(backend, key, fold, seq, entry.at, event).await?;
                            fold.event(seq, entry.at, record.epoch, event);
                        }
                    }
                    seq = seq.next();
                }
            }
            cursor = cursor.max(record.last_seq());
        }
    }
    Ok(cursor.min(until))
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
    use proptest::prelude::*;
    use steadfast_core::content::{Stored, ToolOutput, Usage};
    use steadfast_core::id::Epoch;
    use steadfast_core::input::{Gate, Place};

    use super::*;
    use crate::event_samples::{
        call, ended, queued, recorded, reply, settled, started, text_part, turn,
    };
    use crate::messages::fold::samples::folded;

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

    /// A conversation made of these draws, as a session could have had it.
    fn conversation(draws: &[u8]) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        let (mut waiting, mut open, mut asked) = (Vec::new(), None, Vec::new());
        let mut shown = Vec::new();
        for draw in draws {
            let seq = events.len() as u64 + 1;
            match (draw % 9, open) {
                (0, _) => {
                    events.push(queued(&format!("m{seq}"), "say"));
                    waiting.push(seq);
                }
                (1 | 2, None) if !waiting.is_empty() => {
                    let next = waiting.remove(usize::from(*draw) % waiting.len());
                    events.push(started(next));
                    shown.push(seq);
                    open = Some(next);
                }
                (1, Some(into)) if !waiting.is_empty() => {
                    let queued = turn(waiting.remove(0));
                    events.push(Event::MessageJoined {
                        queued,
                        into: turn(into),
                    });
                    shown.push(seq);
                }
                (2 | 3, Some(of)) => {
                    let calls = vec![recorded("get", Gate::Open, Place::Local)];
                    events.push(reply(of, vec![text_part("answer")], calls));
                    asked.push(seq);
                }
                (4, _) if !asked.is_empty() => {
                    let of = asked.remove(usize::from(*draw) % asked.len());
                    events.push(settled(call(of, 0), "done"));
                }
                (5, _) if !asked.is_empty() => {
                    let of = asked.remove(0);
                    let output = ToolOutput::text("late").into();
                    events.push(Event::CallResolved {
                        call: call(of, 0),
                        output,
                    });
                }
                (6, Some(of)) => {
                    events.push(ended(of));
                    open = None;
                }
                (7, _) => events.push(Event::TranscriptCompacted {
                    number: 1,
                    through: Seq(seq),
                    summary: Stored::Inline("so far".into()),
                    usage: Usage::default(),
                }),
                (8, None) if !shown.is_empty() => {
                    let at = usize::from(*draw) % shown.len();
                    let to = Seq(shown[at]);
                    shown.truncate(at);
                    events.push(Event::TranscriptRewound { to, note: None });
                }
                _ => {}
            }
        }
        events
    }

    proptest! {
        #[test]
        fn a_page_read_by_its_span_is_as_one_of_the_whole_log(
            draws in proptest::collection::vec(any::<u8>(), 0..120),
            start in 0_usize..20,
            count in 1_usize..6,
        ) {
            let events = conversation(&draws);
            let outline = folded(0..0, &events);
            let range = start.min(outline.len())..(start + count).min(outline.len());
            let whole = folded(range.clone(), &events).into_kept();
            let mut read = Vec::new();
            if let Some(span) = outline.span(&range) {
                let mut fold = outline.before(&span, range);
                for (seq, event) in (1..).map(Seq).zip(&events) {
                    if seq < span.from || seq > span.end {
                        continue;
                    }
                    if seq < span.start {
                        fold.arrival(seq, event);
                    } else {
                        fold.event(seq, Timestamp(seq.0), Epoch(1), event);
                    }
                }
                read = fold.into_kept();
            }
            prop_assert_eq!(read, whole);
        }
    }
}
