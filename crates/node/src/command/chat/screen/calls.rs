//! Tool calls as a chat shows them: a line when one is asked for, a line when it is over.

use std::collections::BTreeMap;

use steadfast_core::content::{CallInput, CallOutput, Stored, ToolOutput};
use steadfast_core::event::{Event, RecordedCall, Settlement};
use steadfast_core::id::{CallId, Epoch, Seq};
use steadfast_core::input::{Gate, Place, ReplayRule};

use super::{Ask, VALUE_CHARS_MAX};
use crate::terminal::{ACCENT, BAD, DIM, GOOD, WARN, line, paint, took};

/// The calls of the running turn.
#[derive(Debug, Default)]
pub(super) struct Calls {
    known: BTreeMap<CallId, Known>,
    /// What people owe, by call.
    owed: BTreeMap<CallId, Ask>,
}

#[derive(Debug)]
struct Known {
    tool: String,
    rule: ReplayRule,
    client_side: bool,
    /// When its first attempt started.
    started_at: Option<u64>,
}

/// What is to be written, and asked.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) lines: Vec<String>,
    /// What people owe from now on.
    pub(super) asks: Vec<(CallId, Ask)>,
}

impl Change {
    fn line(text: impl std::fmt::Display) -> Self {
        Self {
            lines: vec![format!("  {text}")],
            asks: Vec::new(),
        }
    }

    fn ask(call: CallId, ask: Ask) -> Self {
        Self {
            lines: Vec::new(),
            asks: vec![(call, ask)],
        }
    }
}

impl Calls {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.owed.clear();
    }

    /// What people owe.
    pub(super) fn owed(&self) -> Vec<Ask> {
        self.owed.values().cloned().collect()
    }

    /// Notes what people owe from now on.
    pub(super) fn owe(&mut self, asks: &[(CallId, Ask)]) {
        self.owed.extend(asks.iter().cloned());
    }

    /// Name of a call's tool, if the call was asked for.
    pub(super) fn name(&self, call: CallId) -> Option<String> {
        self.known.get(&call).map(|known| known.tool.clone())
    }

    fn tool(&self, call: CallId) -> &str {
        self.known
            .get(&call)
            .map_or("a tool", |known| known.tool.as_str())
    }

    /// The model asked for calls.
    pub(super) fn asked(&mut self, epoch: u64, reply: u64, calls: &[RecordedCall]) -> Change {
        let mut change = Change::default();
        for (index, call) in (0..).zip(calls) {
            let id = CallId {
                epoch: Epoch(epoch),
                reply: Seq(reply),
                index,
            };
            let tool = line(&call.tool, 64);
            let sign = paint(ACCENT, format!("▸ {tool}"));
            let input = paint(DIM, input_line(&call.input));
            change.lines.push(format!("  {sign} {input}"));
            let client_side = call.triage.place == Place::Client;
            if client_side && call.triage.gate == Gate::Open {
                let tool = tool.clone();
                change.asks.push((id, Ask::Run { call: id, tool }));
            }
            let known = Known {
                tool,
                rule: call.triage.rule,
                client_side,
                started_at: None,
            };
            self.known.insert(id, known);
        }
        change
    }

    /// Something happened to a call.
    pub(super) fn event(&mut self, at: u64, event: &Event) -> Change {
        match event {
            Event::ApprovalRequested { approval, .. } => {
                let tool = self.tool(approval.0).to_owned();
                let approval = *approval;
                Change::ask(approval.0, Ask::Approve { approval, tool })
            }
            Event::ApprovalDecided {
                approval,
                approved,
                reason,
                ..
            } => self.decided(approval.0, *approved, reason.as_deref()),
            Event::CallStarted { call, attempt, .. } => self.started(*call, *attempt, at),
            Event::CallRetryScheduled {
                call,
                detail,
                retry_at,
                ..
            } => {
                let wait = took(retry_at.0.saturating_sub(at));
                let detail = line(detail, VALUE_CHARS_MAX);
                let text = format!("↻ {}: {detail}; again in {wait}", self.tool(*call));
                Change::line(paint(WARN, text))
            }
            Event::InputRequested { call, question, .. } => {
                let asked = line(&question.requests.to_string(), VALUE_CHARS_MAX);
                let tool = self.tool(*call);
                let text = format!("? {tool} asks {asked}: answer call {call} over the API");
                Change::line(paint(WARN, text))
            }
            Event::CheckRequested { call, .. } => {
                let text = format!("? {} is asked whether it happened", self.tool(*call));
                Change::line(paint(WARN, text))
            }
            Event::CallDoubted { call } => {
                let tool = self.tool(*call);
                let text = format!(
                    "? {tool} may or may not have happened: an operator must settle call {call}"
                );
                Change::line(paint(WARN, text))
            }
            Event::CallSettled {
                call,
                settlement,
                output,
            } => self.settled(*call, *settlement, output, at),
            Event::CallResolved { call, output } => {
                let (said, _) = output_line(output);
                let text = format!("✓ {} answered late: {said}", self.tool(*call));
                Change::line(paint(WARN, text))
            }
            _ => Change::default(),
        }
    }

    fn decided(&mut self, call: CallId, approved: bool, reason: Option<&str>) -> Change {
        self.owed.remove(&call);
        let reason = reason
            .map(|text| format!(": {}", line(text, VALUE_CHARS_MAX)))
            .unwrap_or_default();
        let word = if approved { "approved" } else { "denied" };
        let mut change = Change::line(paint(DIM, format!("{word}{reason}")));
        let client_side = self.known.get(&call).is_some_and(|known| known.client_side);
        if approved && client_side {
            let tool = self.tool(call).to_owned();
            change.asks.push((call, Ask::Run { call, tool }));
        }
        change
    }

    fn started(&mut self, call: CallId, attempt: u32, at: u64) -> Change {
        let Some(known) = self.known.get_mut(&call) else {
            return Change::default();
        };
        let first = known.started_at.is_none();
        known.started_at.get_or_insert(at);
        if first && attempt == 1 {
            return Change::default();
        }
        let key = match known.rule {
            ReplayRule::Safe | ReplayRule::Keyed => "under the same key",
            ReplayRule::Never => "since it certainly did not happen",
        };
        let count = match attempt {
            1 => String::new(),
            _ => format!(" (attempt {attempt})"),
        };
        let text = format!("↻ {} runs again, {key}{count}", known.tool);
        Change::line(paint(WARN, text))
    }

    fn settled(
        &mut self,
        call: CallId,
        settlement: Settlement,
        output: &CallOutput,
        at: u64,
    ) -> Change {
        self.owed.remove(&call);
        let started = self.known.get(&call).and_then(|known| known.started_at);
        let time = started
            .map(|start| format!(" · {}", took(at.saturating_sub(start))))
            .unwrap_or_default();
        let (said, is_error) = output_line(output);
        let (style, sign, lead) = match settlement {
            Settlement::Done if is_error => (BAD, "✗", ""),
            Settlement::Done => (GOOD, "✓", ""),
            Settlement::Refused | Settlement::Denied | Settlement::Expired => {
                (BAD, "✗", "did not run: ")
            }
            Settlement::Superseded => (WARN, "✗", "did not run: "),
            Settlement::Cancelled => (WARN, "✗", ""),
            Settlement::Unreachable | Settlement::ToolGone => (BAD, "✗", "did nothing: "),
            Settlement::Unknown | Settlement::InDoubt => {
                (WARN, "?", "may or may not have happened: ")
            }
        };
        let told = paint(DIM, format!("{lead}{said}{time}"));
        Change::line(format!("{} {} {told}", paint(style, sign), self.tool(call)))
    }
}

fn input_line(input: &Stored<CallInput>) -> String {
    match input {
        Stored::Inline(CallInput::Json(value)) => line(&value.to_string(), VALUE_CHARS_MAX),
        Stored::Inline(CallInput::Malformed { text, .. }) => line(text, VALUE_CHARS_MAX),
        Stored::Blob(blob) => format!("[{} bytes]", blob.size_bytes),
    }
}

/// What a tool said, in a line, and whether it is an error.
fn output_line(output: &CallOutput) -> (String, bool) {
    let Stored::Inline(said) = &output.output else {
        return ("[a large result]".to_owned(), false);
    };
    let text = match said {
        ToolOutput::Text { text } | ToolOutput::ErrorText { text } => text.clone(),
        ToolOutput::Json { value } | ToolOutput::ErrorJson { value } => value.to_string(),
        ToolOutput::Content { parts } => format!("[{} parts]", parts.len()),
        ToolOutput::ExecutionDenied { reason } => {
            reason.clone().unwrap_or_else(|| "denied".to_owned())
        }
    };
    (line(&text, VALUE_CHARS_MAX), said.is_error())
}
