//! From a model's deltas to live frames: small ones that come together are shown as one.

use steadfast_protocol::live::Delta;
use tokio::sync::mpsc;

use crate::feed::{Feed, Shown};

/// Deltas between a provider and the feed, at most; a provider waits for room.
pub(super) const DELTAS_MAX: usize = 64;
/// Text of one frame above which the next delta begins another.
const FRAME_TEXT_BYTES: usize = 4 * 1024;

/// Shows a delta and those that wait behind it.
pub(super) fn show(feed: &Feed, shown: Shown, first: Delta, rest: &mut mpsc::Receiver<Delta>) {
    let mut open = first;
    // Bounded: the channel holds no more, and what comes meanwhile is shown with the next.
    for _ in 0..DELTAS_MAX {
        let Ok(next) = rest.try_recv() else { break };
        if let Some(next) = join(&mut open, next) {
            feed.show(shown, std::mem::replace(&mut open, next));
        }
    }
    feed.show(shown, open);
}

/// Adds a delta of the same part to an open one; gives it back if it is of another, or if the open
/// one is long enough.
fn join(open: &mut Delta, next: Delta) -> Option<Delta> {
    match (open, next) {
        (
            Delta::Text { part, text },
            Delta::Text {
                part: of,
                text: more,
            },
        )
        | (
            Delta::Reasoning { part, text },
            Delta::Reasoning {
                part: of,
                text: more,
            },
        ) if *part == of && text.len() < FRAME_TEXT_BYTES => {
            text.push_str(&more);
            None
        }
        (
            Delta::ToolInput { index, text, .. },
            Delta::ToolInput {
                index: of,
                text: more,
                ..
            },
        ) if *index == of && text.len() < FRAME_TEXT_BYTES => {
            text.push_str(&more);
            None
        }
        (_, next) => Some(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(part: u32, text: &str) -> Delta {
        let text = text.into();
        Delta::Text { part, text }
    }

    #[test]
    fn deltas_of_one_part_become_one() {
        let mut open = text(0, "a");
        assert_eq!(join(&mut open, text(0, "b")), None);
        assert_eq!(open, text(0, "ab"));
        assert_eq!(join(&mut open, text(1, "c")), Some(text(1, "c")));
        assert_eq!(open, text(0, "ab"));
    }

    #[test]
    fn a_long_delta_takes_no_more() {
        let long = "x".repeat(FRAME_TEXT_BYTES);
        let mut open = text(0, &long);
        assert_eq!(join(&mut open, text(0, "b")), Some(text(0, "b")));
    }
}
