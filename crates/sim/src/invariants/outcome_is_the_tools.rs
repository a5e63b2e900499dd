//! A call that is done has the outcome that its tool gave, or one that a person gave instead. What
//! became of a call in doubt may also be that no worker ever had it.

use std::collections::BTreeMap;

use steadfast_core::WITHDRAWN;
use steadfast_core::content::{CallOutput, Stored, ToolOutput};
use steadfast_core::event::{Event, Settlement};
use steadfast_core::id::CallId;
use steadfast_core::input::Place;

use super::{Invariant, Seen};

/// What a simulated operator says of a call in doubt.
pub const OPERATOR_SAYS: &str = "the operator's";

#[derive(Default)]
pub(super) struct OutcomeIsTheTools {
    given: BTreeMap<CallId, Vec<CallOutput>>,
}

impl Invariant for OutcomeIsTheTools {
    fn name(&self) -> &'static str {
        "an outcome is the one the tool gave"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::ToolAnswered {
                call,
                output: Some(output),
            } => {
                self.given.entry(*call).or_default().push((*output).clone());
                Ok(())
            }
            Seen::Event {
                before,
                event:
                    Event::CallSettled {
                        call,
                        settlement: Settlement::Done,
                        output,
                    },
            } => {
                let tool = before.call(*call).map(|call| call.triage.place);
                if matches!(tool, Some(Place::Local | Place::Remote)) {
                    self.must_be_given(*call, output)
                } else {
                    Ok(())
                }
            }
            Seen::Event {
                event: Event::CallResolved { call, output },
                ..
            } => self.must_be_given(*call, output),
            _ => Ok(()),
        }
    }
}

impl OutcomeIsTheTools {
    fn must_be_given(&self, call: CallId, output: &CallOutput) -> Result<(), String> {
        let said = [
            ToolOutput::text(OPERATOR_SAYS),
            ToolOutput::error(WITHDRAWN),
        ];
        if said
            .into_iter()
            .any(|said| output.output == Stored::Inline(said))
        {
            return Ok(());
        }
        let given = self.given.get(&call).map(Vec::as_slice).unwrap_or_default();
        let same = |given: &CallOutput| match (&given.output, &output.output) {
            (Stored::Inline(given), Stored::Inline(shown)) => given == shown,
            // What was moved into a blob is compared by its size, as JSON.
            (Stored::Inline(given), Stored::Blob(blob)) => size(given) == blob.size_bytes,
            (Stored::Blob(given), Stored::Blob(shown)) => given == shown,
            (Stored::Blob(_), Stored::Inline(_)) => false,
        };
        if given.iter().any(same) {
            return Ok(());
        }
        Err(format!(
            "{call} is shown as {output:?}, its tool gave {given:?}"
        ))
    }
}

fn size(output: &ToolOutput) -> u64 {
    serde_json::to_vec(output).map_or(0, |bytes| bytes.len() as u64)
}
