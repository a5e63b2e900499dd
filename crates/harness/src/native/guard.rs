//! Proves that a request is valid before it leaves.

use std::collections::BTreeSet;

use steadfast_core::content::ReplyPart;

use crate::request::{ModelRequest, RequestItem, RequestResult};

/// What is wrong with a request. It did not leave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequest {
    /// No model is named.
    #[error("the request names no model")]
    NoModel,
    /// Nothing is asked.
    #[error("the history is empty")]
    EmptyHistory,
    /// The history does not begin with the user.
    #[error("the history begins with {0}, not with the user")]
    BadStart(&'static str),
    /// Nobody waits for a reply.
    #[error("the history ends with a finished reply: there is nothing to answer")]
    NothingAsked,
    /// A call has no result right after its reply.
    #[error("call {0} has no result right after the reply that asked for it")]
    Unanswered(String),
    /// A result stands where no call waits for one.
    #[error("the result of {0} answers no call of the reply before it")]
    Unasked(String),
    /// Results stand in another order than their calls.
    #[error("the result of {found} stands where that of {wanted} belongs")]
    OutOfOrder {
        /// The call whose result is due.
        wanted: String,
        /// The call whose result is there.
        found: String,
    },
    /// Two calls have one id.
    #[error("two calls have the id {0}")]
    RepeatedCallId(String),
    /// A call has no id.
    #[error("a call of {0} has no id")]
    NoCallId(String),
    /// A reply names a call that it does not have, or names one twice.
    #[error("a reply places call {index} of {calls} wrongly")]
    MisplacedCall {
        /// Which call it names.
        index: u16,
        /// How many it has.
        calls: usize,
    },
}

/// Whether this request may leave: each call has exactly one result, in order, right after the
/// reply that asked for it; ids are unique; the history begins with the user and ends with
/// something to answer.
pub fn prove(request: &ModelRequest) -> Result<(), InvalidRequest> {
    let mut proof = Proof::default();
    for item in request.items.iter() {
        proof.add(item)?;
    }
    proof.complete(request)
}

/// What is proven of a history so far; it goes on where it was left.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    ids: BTreeSet<String>,
    /// Calls of the newest item.
    open: Vec<String>,
    has_begun: bool,
}

impl Proof {
    /// Proves the next item.
    pub(crate) fn add(&mut self, item: &RequestItem) -> Result<(), InvalidRequest> {
        if !self.has_begun {
            begins(item)?;
            self.has_begun = true;
        }
        match item {
            RequestItem::Results { results } => {
                answers(&self.open, results)?;
                self.open.clear();
            }
            RequestItem::User { .. } => all_answered(&self.open)?,
            RequestItem::Reply { parts, calls, .. } => {
                all_answered(&self.open)?;
                for call in calls {
                    if call.id.is_empty() {
                        return Err(InvalidRequest::NoCallId(call.tool.clone()));
                    }
                    if !self.ids.insert(call.id.clone()) {
                        return Err(InvalidRequest::RepeatedCallId(call.id.clone()));
                    }
                    self.open.push(call.id.clone());
                }
                places(parts, calls.len())?;
            }
        }
        Ok(())
    }

    /// Whether a request of just the items that were proven may leave.
    pub(crate) fn complete(&self, request: &ModelRequest) -> Result<(), InvalidRequest> {
        if request.model.trim().is_empty() {
            return Err(InvalidRequest::NoModel);
        }
        if !self.has_begun {
            return Err(InvalidRequest::EmptyHistory);
        }
        all_answered(&self.open)?;
        something_asked(request.items.last())
    }
}

fn begins(item: &RequestItem) -> Result<(), InvalidRequest> {
    match item {
        RequestItem::User { .. } => Ok(()),
        RequestItem::Reply { .. } => Err(InvalidRequest::BadStart("a reply")),
        RequestItem::Results { results } => Err(results
            .first()
            .map_or(InvalidRequest::BadStart("results"), |result| {
                InvalidRequest::Unasked(result.id.clone())
            })),
    }
}

fn all_answered(open: &[String]) -> Result<(), InvalidRequest> {
    match open.first() {
        None => Ok(()),
        Some(id) => Err(InvalidRequest::Unanswered(id.clone())),
    }
}

fn answers(open: &[String], results: &[RequestResult]) -> Result<(), InvalidRequest> {
    for (wanted, result) in open.iter().zip(results) {
        if *wanted != result.id {
            return Err(if open.contains(&result.id) {
                InvalidRequest::OutOfOrder {
                    wanted: wanted.clone(),
                    found: result.id.clone(),
                }
            } else {
                InvalidRequest::Unasked(result.id.clone())
            });
        }
    }
    if let Some(result) = results.get(open.len()) {
        return Err(InvalidRequest::Unasked(result.id.clone()));
    }
    all_answered(open.get(results.len()..).unwrap_or_default())
}

fn places(parts: &[ReplyPart], calls: usize) -> Result<(), InvalidRequest> {
    let mut placed = BTreeSet::new();
    for part in parts {
        if let ReplyPart::Call { index, .. } = part
            && (usize::from(*index) >= calls || !placed.insert(*index))
        {
            return Err(InvalidRequest::MisplacedCall {
                index: *index,
                calls,
            });
        }
    }
    Ok(())
}

/// A reply at the end is only sent back when its provider paused within a tool of its own.
fn something_asked(last: Option<&RequestItem>) -> Result<(), InvalidRequest> {
    match last {
        Some(RequestItem::Reply { parts, .. })
            if !parts
                .iter()
                .any(|part| matches!(part, ReplyPart::ProviderTool { .. })) =>
        {
            Err(InvalidRequest::NothingAsked)
        }
        _ => Ok(()),
    }
}
