//! What a chat shows: happenings of the session in, lines of text out.

mod calls;
mod speech;

use std::io::{self, Write};

use steadfast_core::content::{ContentPart, ReplyPart, Stored};
use steadfast_core::event::{Event, TurnOutcome};
use steadfast_core::id::{ApprovalId, CallId, Timestamp};
use steadfast_protocol::live::Delta;

use crate::client::{Happening, Piece};
use crate::command::chat::screen::calls::Calls;
use crate::command::chat::screen::speech::Speech;
use crate::terminal::{ACCENT, BAD, DIM, WARN, line, paint, took};

/// Characters of a value that are shown of a call.
const VALUE_CHARS_MAX: usize = 110;

/// The screen of one chat.
pub(crate) struct Screen {
    out: Box<dyn Write + Send>,
    /// The cursor stands behind text, not at the start of a line.
    mid_line: bool,
    speech: Speech,
    calls: Calls,
    /// The turn that runs.
    turn: Option<u64>,
    /// What is shown happened before: the user's own messages are part of it.
    past: bool,
}

/// What the user is asked to do about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Agree to it or not.
    Approve {
        /// The approval.
        approval: ApprovalId,
        /// The tool.
        tool: String,
    },
    /// Run it and tell the result.
    Run {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
    },
}

/// What follows from a happening.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing.
    Go,
    /// The user is asked, one thing after the other.
    Ask(Vec<Ask>),
    /// A turn is over, and whether it came to a good end.
    Ended {
        /// Which.
        turn: u64,
        /// Whether the agent answered.
        good: bool,
    },
}

impl Screen {
    /// A screen that writes there.
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Self {
        Self {
            out,
            mid_line: false,
            speech: Speech::default(),
            calls: Calls::default(),
            turn: None,
            past: true,
        }
    }

    /// The turn that runs, as far as it is seen.
    pub(crate) fn turn(&self) -> Option<u64> {
        self.turn
    }

    /// What people owe to it.
    pub(crate) fn owed(&self) -> Vec<Ask> {
        self.calls.owed()
    }

    /// Shows a happening.
    pub(crate) fn show(&mut self, happening: &Happening) -> io::Result<Next> {
        let next = match happening {
            Happening::Committed {
                seq,
                at,
                epoch,
                event,
            } => self.committed(*seq, *at, *epoch, event)?,
            Happening::Live(piece) => {
                self.live(piece)?;
                Next::Go
            }
            Happening::CaughtUp => {
                // From here on the pieces of the open step come from its start.
                self.speech.start_over();
                self.past = false;
                Next::Go
            }
            Happening::Lost => {
                self.note(WARN, "… the node is away; waiting for it to come back")?;
                Next::Go
            }
            Happening::Back => {
                self.note(DIM, "… the node is back")?;
                Next::Go
            }
        };
        self.out.flush()?;
        Ok(next)
    }

    /// A line of its own.
    pub(crate) fn say(&mut self, text: impl std::fmt::Display) -> io::Result<()> {
        self.end_line()?;
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// A line of its own that is not part of the conversation.
    pub(crate) fn note(&mut self, style: anstyle::Style, text: &str) -> io::Result<()> {
        self.say(paint(style, format!("  {text}")))
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.mid_line) {
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn live(&mut self, piece: &Piece) -> io::Result<()> {
        match &piece.delta {
            Delta::Text { text, .. } => {
                let said = self.speech.heard(piece, text);
                self.speak(&said)
            }
            Delta::Withdrawn => {
                self.speech.start_over();
                Ok(())
            }
            Delta::Reasoning { .. } | Delta::ToolInput { .. } => Ok(()),
            Delta::ToolProgress { call, output } => {
                let Some(tool) = self.calls.name(*call) else {
                    // It runs ahead of the record that asks for it.
                    return Ok(());
                };
                let output = line(&output.to_string(), VALUE_CHARS_MAX);
                self.note(DIM, &format!("… {tool} {output}"))
            }
        }
    }

    /// Writes what is new of the agent's words.
    fn speak(&mut self, said: &speech::Said) -> io::Result<()> {
        if said.begins_anew {
            self.note(DIM, "… the answer begins anew")?;
        }
        if !said.text.is_empty() {
            write!(self.out, "{}", crate::terminal::plain(&said.text))?;
            self.mid_line = !said.text.ends_with('\n');
        }
        Ok(())
    }

    fn committed(&mut self, seq: u64, at: u64, epoch: u64, event: &Event) -> io::Result<Next> {
        match event {
            Event::TurnQueued { content, .. } if self.past => {
                let text = line(&said_in(content), 2_000);
                self.say(paint(ACCENT, format!("› {text}")))?;
            }
            Event::TurnStarted { turn } => {
                self.turn = Some(turn.0.0);
            }
            Event::TurnEnded { turn, outcome } => {
                self.ended(outcome)?;
                self.turn = None;
                let good = matches!(outcome, TurnOutcome::Completed { .. });
                return Ok(Next::Ended {
                    turn: turn.0.0,
                    good,
                });
            }
            Event::Activated { node, .. } if self.turn.is_some() => {
                self.note(
                    WARN,
                    &format!("↻ node {node} took the turn over and goes on"),
                )?;
            }
            Event::TurnCrashed {
                in_row, hold_until, ..
            } => {
                self.note(WARN, &crashed(*in_row, *hold_until, at))?;
            }
            Event::ModelCallFailed {
                attempt,
                message,
                retry_at,
                ..
            } => {
                let wait = took(retry_at.0.saturating_sub(at));
                let text = format!(
                    "↻ model call {attempt} failed: {}; again in {wait}",
                    line(message, VALUE_CHARS_MAX)
                );
                self.note(WARN, &text)?;
            }
            Event::ModelReplied { parts, calls, .. } => {
                let said = self.speech.replied(&text_of(parts));
                self.speak(&said)?;
                self.end_line()?;
                return self.show_calls(|calls_shown| calls_shown.asked(epoch, seq, calls));
            }
            Event::TranscriptCompacted { .. } => self.note(DIM, "the history was summarised")?,
            Event::MessageJoined { .. } => self.note(DIM, "the message joined the running turn")?,
            _ => return self.show_calls(|calls| calls.event(at, event)),
        }
        Ok(Next::Go)
    }

    /// Shows what changed about calls.
    fn show_calls(&mut self, change: impl FnOnce(&mut Calls) -> calls::Change) -> io::Result<Next> {
        let change = change(&mut self.calls);
        for text in change.lines {
            self.say(text)?;
        }
        self.calls.owe(&change.asks);
        let asks: Vec<Ask> = change.asks.into_iter().map(|(_, ask)| ask).collect();
        Ok(if asks.is_empty() {
            Next::Go
        } else {
            Next::Ask(asks)
        })
    }

    fn ended(&mut self, outcome: &TurnOutcome) -> io::Result<()> {
        self.speech.over();
        self.calls.clear();
        match outcome {
            TurnOutcome::Completed { .. } => self.end_line(),
            TurnOutcome::Failed { code, message } => {
                self.note(BAD, &format!("✗ failed: {} ({code})", line(message, 400)))
            }
            TurnOutcome::Cancelled => self.note(WARN, "cancelled"),
            TurnOutcome::Rejected => self.note(WARN, "the message was refused"),
            TurnOutcome::Superseded => self.note(DIM, "an edited message took its place"),
        }
    }
}

fn crashed(in_row: u32, hold_until: Option<Timestamp>, at: u64) -> String {
    let count = match in_row {
        1 => String::new(),
        _ => format!(", {in_row} times in a row"),
    };
    let wait = match hold_until {
        Some(until) => format!("; next try in {}", took(until.0.saturating_sub(at))),
        None => String::new(),
    };
    format!("↻ the node died in this turn{count}{wait}")
}

/// The words of a message.
fn said_in(content: &[Stored<ContentPart>]) -> String {
    let text = |part: &Stored<ContentPart>| match part {
        Stored::Inline(ContentPart::Text { text }) => text.clone(),
        Stored::Inline(ContentPart::Json { value }) => value.to_string(),
        Stored::Inline(ContentPart::File { media_type, .. }) => format!("[{media_type}]"),
        Stored::Blob(blob) => format!("[{} bytes]", blob.size_bytes),
    };
    content.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The words of a reply.
fn text_of(parts: &[Stored<ReplyPart>]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            Stored::Inline(ReplyPart::Text { text: more, .. }) => text.push_str(more),
            Stored::Inline(_) => {}
            Stored::Blob(blob) => text.push_str(&format!("[{} bytes more]", blob.size_bytes)),
        }
    }
    text
}

#[cfg(test)]
mod tests;
