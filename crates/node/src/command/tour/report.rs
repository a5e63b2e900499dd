//! What the tour prints, in at most 80 columns, and what it checks.

use std::time::Instant;

use steadfast_core::event::Settlement;

use super::Tool;
use super::story::Story;
use super::tool_server::{Arrival, Side};
use crate::terminal::{ACCENT, BAD, DIM, GOOD, STRONG, WARN, paint};

/// Columns of a paragraph.
const WIDTH: usize = 74;

/// The report, printed as things happen.
pub(crate) struct Report {
    start: Instant,
}

impl Report {
    /// Prints what will be seen.
    pub(crate) fn begin() -> Self {
        let report = Self {
            start: Instant::now(),
        };
        report.say(&format!(
            "{}",
            paint(STRONG, "A turn that is killed three times")
        ));
        for line in wrapped(
            "An agent handles a return: it reads the order, charges a fee, sends the refund. \
             Each tool carries out its first request and never answers it, and in that moment \
             the node is killed (SIGKILL) and started again.",
        ) {
            report.say(&format!("{}", paint(DIM, line)));
        }
        report.say("");
        report
    }

    /// Prints a line.
    pub(crate) fn say(&self, text: &str) {
        crate::terminal::say!("{text}");
    }

    fn at(&self, text: &str) {
        let seconds = self.start.elapsed().as_secs_f64();
        crate::terminal::say!("{} {text}", paint(DIM, format!("{seconds:6.2} s")));
    }

    /// The node runs for the first time.
    pub(crate) fn node_started(&self) {
        self.at("  the node runs");
    }

    /// The message was sent.
    pub(crate) fn asked(&self) {
        self.at("  the message is accepted: it is in the log");
    }

    /// A request reached a tool.
    pub(crate) fn request(&self, arrival: &Arrival, count: usize) {
        let sign = if count == 1 { "▸" } else { "↻" };
        let key = arrival.key.as_deref().unwrap_or("none");
        let again = if count == 1 {
            String::new()
        } else {
            format!("request {count}, ")
        };
        let name = paint(ACCENT, format!("{sign} {:12}", arrival.tool.name()));
        self.at(&format!(
            "{name} {}",
            paint(DIM, format!("{again}key {key}"))
        ));
    }

    /// The node was killed.
    pub(crate) fn killed(&self, tool: Tool) {
        let text = format!("✗ kill -9 in the middle of {}", tool.name());
        self.at(&format!("{}", paint(BAD, text)));
    }

    /// The node runs again.
    pub(crate) fn started_again(&self) {
        self.at(&format!(
            "{}",
            paint(WARN, "↻ the node runs again and takes the turn over")
        ));
    }

    /// The turn is over.
    pub(crate) fn answered(&self, story: &Story) {
        let text = if story.completed {
            "✓ the turn is completed"
        } else {
            "✗ the turn failed"
        };
        let style = if story.completed { GOOD } else { BAD };
        self.at(&format!("{}", paint(style, text)));
    }

    /// Prints the comparison, what the model was told, and the checks; whether all of them hold.
    pub(crate) fn end(&self, story: &Story, naive: &[Arrival]) -> bool {
        self.say("");
        self.comparison(story, naive);
        self.told(story);
        self.say("");
        self.say(&format!("{}", paint(STRONG, "Checked")));
        let checks = checks(story, naive);
        for (text, holds) in &checks {
            let sign = if *holds {
                paint(GOOD, "✓").to_string()
            } else {
                paint(BAD, "✗").to_string()
            };
            self.say(&format!("  {sign} {text}"));
        }
        checks.iter().all(|(_, holds)| *holds)
    }

    fn comparison(&self, story: &Story, naive: &[Arrival]) {
        let head = format!(
            "{:13} {:6}   {:22}   {}",
            "", "", "Steadfast", "a loop without a log"
        );
        self.say(&format!("{}", paint(STRONG, head)));
        let head = format!(
            "{:13} {:6}   {:>8}  {:>12}   {:>8}  {:>12}",
            "tool", "rule", "requests", "really done", "requests", "really done"
        );
        self.say(&format!("{}", paint(DIM, head)));
        for tool in Tool::ALL {
            let (ours, theirs) = (count(&story.arrivals, tool), count(naive, tool));
            let wrong = theirs.1 > 1;
            let theirs_done = format!("{:>12}", done(tool, theirs.1));
            let theirs_done = if wrong {
                paint(BAD, theirs_done)
            } else {
                paint(DIM, theirs_done)
            };
            self.say(&format!(
                "{:13} {:6}   {:>8}  {:>12}   {:>8}  {}",
                tool.name(),
                tool.rule(),
                ours.0,
                done(tool, ours.1),
                theirs.0,
                theirs_done,
            ));
        }
    }

    fn told(&self, story: &Story) {
        self.say("");
        self.say(&format!("{}", paint(STRONG, "What the model was told")));
        for (tool, settlement, text) in &story.told {
            let style = if *settlement == Settlement::Done {
                GOOD
            } else {
                WARN
            };
            let sign = if *settlement == Settlement::Done {
                "✓"
            } else {
                "?"
            };
            let mut lines = wrapped(text).into_iter();
            let first = lines.next().unwrap_or_default();
            self.say(&format!(
                "  {} {}",
                paint(style, sign),
                paint(ACCENT, tool.name())
            ));
            for line in std::iter::once(first).chain(lines) {
                self.say(&format!("    {}", paint(DIM, line)));
            }
        }
    }
}

/// Requests for a tool, and how many of them did something.
fn count(arrivals: &[Arrival], tool: Tool) -> (usize, usize) {
    let of_tool = || arrivals.iter().filter(|arrival| arrival.tool == tool);
    (
        of_tool().count(),
        of_tool().filter(|arrival| arrival.effect).count(),
    )
}

fn done(tool: Tool, times: usize) -> String {
    let what = match tool {
        Tool::ReadOrder => return "a read only".to_owned(),
        Tool::ChargeCard => "charge",
        Tool::SendRefund => "refund",
    };
    let plural = if times == 1 { "" } else { "s" };
    format!("{times} {what}{plural}")
}

/// Every promise of the tour, and whether it held.
fn checks(story: &Story, naive: &[Arrival]) -> Vec<(&'static str, bool)> {
    let keys = |tool: Tool| {
        let mut keys: Vec<&str> = story
            .arrivals
            .iter()
            .filter(|arrival| arrival.side == Side::Durable && arrival.tool == tool)
            .filter_map(|arrival| arrival.key.as_deref())
            .collect();
        keys.dedup();
        keys.len()
    };
    let ended = |tool: Tool| {
        let settled = story.told.iter().filter(|told| told.0 == tool);
        settled.map(|told| told.1).collect::<Vec<_>>()
    };
    let ours = |tool: Tool| count(&story.arrivals, tool);
    vec![
        (
            "the safe call ran again under the same key",
            ours(Tool::ReadOrder).0 == 2
                && keys(Tool::ReadOrder) == 1
                && ended(Tool::ReadOrder) == [Settlement::Done],
        ),
        (
            "the keyed call ran again under the same key and charged once",
            ours(Tool::ChargeCard) == (2, 1)
                && keys(Tool::ChargeCard) == 1
                && ended(Tool::ChargeCard) == [Settlement::Done],
        ),
        (
            "the never call was not run again, and the model knows that it is in doubt",
            ours(Tool::SendRefund) == (1, 1) && ended(Tool::SendRefund) == [Settlement::InDoubt],
        ),
        (
            "the turn was completed, by the message that was sent once",
            story.completed,
        ),
        ("the log counted three crashes", story.crashes == 3),
        (
            "a reader sees every event once, in order, over all restarts",
            story.gapless,
        ),
        (
            "the loop without a log did repeat the charge and the refund",
            count(naive, Tool::ChargeCard).1 > 1 && count(naive, Tool::SendRefund).1 > 1,
        ),
    ]
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let current = lines.last().map_or(0, |line| line.chars().count());
        if current > 0 && current + 1 + word.chars().count() > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
