//! What the agent says in the open step, heard in pieces and perhaps more than once.

use crate::client::Piece;

/// The words of the open step. Pieces come again after a reconnection, and differ after a failed
/// attempt: only what is new is given on.
#[derive(Debug, Default)]
pub(super) struct Speech {
    /// What stands on the screen of this step.
    shown: String,
    /// What was heard of the attempt, from its start.
    heard: String,
    /// Which attempt that is: turn, step, epoch, attempt.
    attempt: Option<(u64, u32, u64, u32)>,
}

/// What is to be written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// The new words.
    pub(super) text: String,
    /// They take the place of what stands there.
    pub(super) begins_anew: bool,
}

impl Speech {
    /// A piece was heard.
    pub(super) fn heard(&mut self, piece: &Piece, text: &str) -> Said {
        let attempt = (piece.turn, piece.step, piece.epoch, piece.attempt);
        if self.attempt != Some(attempt) {
            let step = |of: (u64, u32, u64, u32)| (of.0, of.1);
            if self.attempt.map(step) != Some(step(attempt)) {
                self.shown.clear();
            }
            self.attempt = Some(attempt);
            self.heard.clear();
        }
        self.heard.push_str(text);
        let heard = self.heard.clone();
        self.show(&heard)
    }

    /// What was heard of the open step comes again from its start, or is void.
    pub(super) fn start_over(&mut self) {
        self.heard.clear();
    }

    /// The whole reply.
    pub(super) fn replied(&mut self, text: &str) -> Said {
        let said = self.show(text);
        self.over();
        said
    }

    /// The step is over.
    pub(super) fn over(&mut self) {
        *self = Self::default();
    }

    fn show(&mut self, text: &str) -> Said {
        if self.shown.starts_with(text) {
            return Said::default();
        }
        let new = text.strip_prefix(self.shown.as_str());
        let said = Said {
            text: new.unwrap_or(text).to_owned(),
            begins_anew: new.is_none(),
        };
        text.clone_into(&mut self.shown);
        said
    }
}

#[cfg(test)]
mod tests {
    use steadfast_protocol::live::Delta;

    use super::*;

    fn piece(epoch: u64, attempt: u32) -> Piece {
        Piece {
            epoch,
            turn: 4,
            step: 1,
            attempt,
            delta: Delta::Withdrawn,
        }
    }

    fn new(text: &str) -> Said {
        Said {
            text: text.to_owned(),
            begins_anew: false,
        }
    }

    #[test]
    fn pieces_that_come_again_are_shown_once() {
        let mut speech = Speech::default();
        assert_eq!(speech.heard(&piece(1, 1), "Hel"), new("Hel"));
        assert_eq!(speech.heard(&piece(1, 1), "lo "), new("lo "));
        speech.start_over();
        assert_eq!(speech.heard(&piece(1, 1), "Hello"), new(""));
        assert_eq!(speech.heard(&piece(1, 1), " you"), new("you"));
        assert_eq!(speech.replied("Hello you."), new("."));
    }

    #[test]
    fn another_owner_that_says_the_same_is_not_noticed() {
        let mut speech = Speech::default();
        speech.heard(&piece(1, 1), "Hello");
        assert_eq!(speech.heard(&piece(2, 1), "Hel"), new(""));
        assert_eq!(speech.heard(&piece(2, 1), "lo you"), new(" you"));
    }

    #[test]
    fn an_attempt_that_says_something_else_begins_anew() {
        let mut speech = Speech::default();
        speech.heard(&piece(1, 1), "Hello");
        speech.start_over();
        let said = speech.heard(&piece(1, 2), "Good");
        let anew = Said {
            text: "Good".to_owned(),
            begins_anew: true,
        };
        assert_eq!(said, anew);
        assert_eq!(speech.replied("Good day"), new(" day"));
    }

    #[test]
    fn a_reply_that_was_not_heard_is_shown_whole() {
        let mut speech = Speech::default();
        assert_eq!(speech.replied("Hello"), new("Hello"));
        assert_eq!(speech.replied("Hello"), new("Hello"));
    }
}
