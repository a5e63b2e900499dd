//! What was shown of the open step so far, for who comes late.

use bytes::Bytes;
use steadfast_core::event::Event;
use steadfast_core::id::{CallId, Epoch, TurnId};
use steadfast_protocol::live::{Delta, LiveFrame};

use super::frame::LivePiece;

/// Bytes of text kept, at most; above that a late comer gets only what comes from then on.
const BYTES_MAX: usize = 1024 * 1024;

/// Which attempt a frame belongs to, in the order in which attempts are made.
type Attempt = (Epoch, TurnId, u32, u32);

/// The pieces of the newest attempt; neighbouring pieces of one part are kept as one.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    newest: Option<Attempt>,
    /// The newest step whose reply is committed: its deltas are no longer wanted.
    replied: Option<(TurnId, u32)>,
    pieces: Vec<Piece>,
    size_bytes: usize,
}

#[derive(Debug, PartialEq)]
struct Piece {
    first_n: u64,
    n: u64,
    delta: Delta,
}

impl Backlog {
    /// Takes a frame in; `false`: it is of an older attempt, or of a step that is committed, and
    /// must not be shown.
    pub(crate) fn push(&mut self, frame: &LiveFrame) -> bool {
        let attempt = (frame.epoch, frame.turn, frame.step, frame.attempt);
        if self.newest.is_some_and(|newest| attempt < newest) {
            return false;
        }
        let of_reply = !matches!(frame.delta, Delta::ToolProgress { .. });
        if of_reply && self.replied >= Some((frame.turn, frame.step)) {
            return false;
        }
        if self.newest != Some(attempt) {
            self.newest = Some(attempt);
            self.clear();
        }
        match &frame.delta {
            Delta::Withdrawn => self.clear(),
            Delta::ToolProgress { call, .. } => {
                self.forget_call(*call);
                self.keep(frame);
            }
            Delta::Text { .. } | Delta::Reasoning { .. } | Delta::ToolInput { .. } => {
                self.keep(frame);
            }
        }
        true
    }

    /// Forgets what a committed event says better.
    pub(crate) fn commit(&mut self, event: &Event) {
        match event {
            Event::ModelReplied { turn, step, .. } => {
                self.replied = self.replied.max(Some((*turn, *step)));
                self.clear();
            }
            Event::CallSettled { call, .. } => self.forget_call(*call),
            Event::TurnEnded { .. } | Event::Activated { .. } => self.clear(),
            _ => {}
        }
    }

    /// The frames of what is kept.
    pub(crate) fn frames(&self) -> Result<Vec<Bytes>, serde_json::Error> {
        let Some((epoch, turn, step, attempt)) = self.newest else {
            return Ok(Vec::new());
        };
        let frame = |piece: &Piece| {
            let piece = LivePiece {
                epoch,
                turn,
                step,
                attempt,
                first_n: (piece.first_n < piece.n).then_some(piece.first_n),
                n: piece.n,
                delta: &piece.delta,
            };
            piece.frame()
        };
        self.pieces.iter().map(frame).collect()
    }

    fn keep(&mut self, frame: &LiveFrame) {
        self.size_bytes += delta_bytes(&frame.delta);
        if self.size_bytes > BYTES_MAX {
            self.clear();
            return;
        }
        if let Some(last) = self.pieces.last_mut()
            && last.n.checked_add(1) == Some(frame.n)
            && append(&mut last.delta, &frame.delta)
        {
            last.n = frame.n;
            return;
        }
        self.pieces.push(Piece {
            first_n: frame.n,
            n: frame.n,
            delta: frame.delta.clone(),
        });
    }

    fn forget_call(&mut self, settled: CallId) {
        self.pieces.retain(
            |piece| !matches!(piece.delta, Delta::ToolProgress { call, .. } if call == settled),
        );
        self.size_bytes = self
            .pieces
            .iter()
            .map(|piece| delta_bytes(&piece.delta))
            .sum();
    }

    fn clear(&mut self) {
        self.pieces.clear();
        self.size_bytes = 0;
    }
}

fn delta_bytes(delta: &Delta) -> usize {
    /// Roughly what a piece costs besides its text.
    const FRAME_BYTES: usize = 64;
    let text = match delta {
        Delta::Text { text, .. }
        | Delta::Reasoning { text, .. }
        | Delta::ToolInput { text, .. } => text.len(),
        Delta::ToolProgress { output, .. } => output.to_string().len(),
        Delta::Withdrawn => 0,
    };
    text + FRAME_BYTES
}

/// Adds a piece of the same part to a text; `false`: they do not belong together.
fn append(to: &mut Delta, more: &Delta) -> bool {
    match (to, more) {
        (
            Delta::Text { part, text },
            Delta::Text {
                part: other,
                text: more,
            },
        )
        | (
            Delta::Reasoning { part, text },
            Delta::Reasoning {
                part: other,
                text: more,
            },
        ) if part == other => {
            text.push_str(more);
            true
        }
        (
            Delta::ToolInput { index, tool, text },
            Delta::ToolInput {
                index: other,
                tool: same,
                text: more,
            },
        ) if index == other && tool == same => {
            text.push_str(more);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::content::{Finish, Usage};
    use steadfast_core::id::Seq;

    use super::*;

    fn frame(step: u32, attempt: u32, n: u64, delta: Delta) -> LiveFrame {
        LiveFrame {
            epoch: Epoch(1),
            turn: TurnId(Seq(3)),
            step,
            attempt,
            n,
            delta,
        }
    }

    fn text(part: u32, text: &str) -> Delta {
        Delta::Text {
            part,
            text: text.into(),
        }
    }

    fn shown(backlog: &Backlog) -> Vec<(u64, u64, String)> {
        let piece = |piece: &Piece| {
            let text = match &piece.delta {
                Delta::Text { text, .. } => text.clone(),
                other => format!("{other:?}"),
            };
            (piece.first_n, piece.n, text)
        };
        backlog.pieces.iter().map(piece).collect()
    }

    #[test]
    fn neighbours_are_kept_as_one() {
        let mut backlog = Backlog::default();
        for (n, delta) in [text(0, "a"), text(0, "b"), text(1, "c")]
            .into_iter()
            .enumerate()
        {
            assert!(backlog.push(&frame(1, 1, n as u64, delta)));
        }
        assert!(backlog.push(&frame(1, 1, 9, text(1, "after a gap"))));
        let expected = [
            (0, 1, "ab".to_owned()),
            (2, 2, "c".to_owned()),
            (9, 9, "after a gap".to_owned()),
        ];
        assert_eq!(shown(&backlog), expected);
    }

    #[test]
    fn a_newer_attempt_replaces_and_an_older_is_dropped() {
        let mut backlog = Backlog::default();
        assert!(backlog.push(&frame(1, 1, 0, text(0, "old"))));
        assert!(backlog.push(&frame(1, 2, 0, text(0, "new"))));
        assert!(!backlog.push(&frame(1, 1, 1, text(0, "late"))));
        assert_eq!(shown(&backlog), [(0, 0, "new".to_owned())]);
        assert!(backlog.push(&frame(1, 2, 1, Delta::Withdrawn)));
        assert_eq!(shown(&backlog), []);
    }

    #[test]
    fn a_committed_reply_ends_the_deltas_of_its_step() {
        let mut backlog = Backlog::default();
        assert!(backlog.push(&frame(1, 1, 0, text(0, "a"))));
        backlog.commit(&Event::ModelReplied {
            turn: TurnId(Seq(3)),
            step: 1,
            wire: "w".into(),
            model: "m".into(),
            parts: Vec::new(),
            calls: Vec::new(),
            finish: Finish::Stop,
            usage: Usage::default(),
        });
        assert_eq!(shown(&backlog), []);
        assert!(!backlog.push(&frame(1, 1, 1, text(0, "late"))));
        assert!(backlog.push(&frame(2, 1, 0, text(0, "next step"))));
    }

    #[test]
    fn a_backlog_is_bounded() {
        let mut backlog = Backlog::default();
        let large = "x".repeat(BYTES_MAX / 2);
        for n in 0..10 {
            assert!(backlog.push(&frame(1, 1, n, text(0, &large))));
            assert!(backlog.size_bytes <= BYTES_MAX);
        }
    }
}
