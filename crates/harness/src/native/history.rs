//! Loaded items as a model is shown them.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::content::ContentPart;
use steadfast_core::id::CallId;

use crate::native::load::{LoadedCall, LoadedItem};
use crate::request::{RequestCall, RequestItem, RequestResult};

const SUMMARY_PREFACE: &str = "The earlier part of this conversation was condensed. \
    This summary stands for all of it:";
const NOTE_PREFACE: &str = "Note from the system, not from the user:";

/// The id that each call has in the request: the provider's own, unless it gave none or gave it
/// to an earlier call already. The first holder keeps it, so that an older history encodes to the
/// same bytes when it grows.
#[derive(Debug, Default)]
pub(crate) struct CallNames {
    taken: BTreeSet<String>,
    newest_step: BTreeMap<CallId, String>,
}

impl CallNames {
    /// The next item as a model is shown it.
    pub(crate) fn request_item(&mut self, item: LoadedItem) -> RequestItem {
        match item {
            LoadedItem::User { parts } => RequestItem::User { parts },
            LoadedItem::Note { text } => told(format!("{NOTE_PREFACE} {text}")),
            LoadedItem::Summary { text } => told(format!("{SUMMARY_PREFACE}\n\n{text}")),
            LoadedItem::Reply {
                wire,
                model,
                parts,
                calls,
            } => RequestItem::Reply {
                wire,
                model,
                parts,
                calls: self.name(calls),
            },
            LoadedItem::Results { results } => {
                let results = results.into_iter().map(|result| RequestResult {
                    id: self.of(result.id),
                    tool: result.tool,
                    output: result.output,
                    note: result.note,
                });
                RequestItem::Results {
                    results: results.collect(),
                }
            }
        }
    }
}

fn told(text: String) -> RequestItem {
    RequestItem::User {
        parts: vec![ContentPart::Text { text }],
    }
}

impl CallNames {
    fn name(&mut self, calls: Vec<LoadedCall>) -> Vec<RequestCall> {
        self.newest_step.clear();
        calls
            .into_iter()
            .map(|call| {
                let id = self.free(&call);
                self.taken.insert(id.clone());
                self.newest_step.insert(call.id, id.clone());
                RequestCall {
                    id,
                    tool: call.tool,
                    input: call.input,
                }
            })
            .collect()
    }

    fn free(&self, call: &LoadedCall) -> String {
        let own = call.provider_call_id.trim();
        if !own.is_empty() && !self.taken.contains(own) {
            return own.to_owned();
        }
        let plain = format!("call-{}", call.id);
        // A fork's calls may have the numbers of the new session's.
        let numbered = (2_u32..).map(|n| format!("{plain}-{n}"));
        std::iter::once(plain.clone())
            .chain(numbered)
            .find(|id| !self.taken.contains(id))
            .unwrap_or(plain)
    }

    /// The name of a call of the newest reply; any other call's result is for the guard to refuse.
    fn of(&self, id: CallId) -> String {
        self.newest_step
            .get(&id)
            .cloned()
            .unwrap_or_else(|| format!("unasked-{id}"))
    }
}
