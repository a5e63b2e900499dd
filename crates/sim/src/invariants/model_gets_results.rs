//! No model is asked while a call has no result.

use steadfast_harness::request::RequestItem;

use super::{Invariant, Seen};

#[derive(Default)]
pub(super) struct ModelGetsResults;

impl Invariant for ModelGetsResults {
    fn name(&self) -> &'static str {
        "every transcript is valid"
    }

    fn observe(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::ModelAsked { request } = seen else {
            return Ok(());
        };
        let mut open: Vec<&str> = Vec::new();
        for item in request.items.iter() {
            match item {
                RequestItem::Results { results } => {
                    let answered: Vec<&str> =
                        results.iter().map(|result| result.id.as_str()).collect();
                    if answered != open {
                        return Err(format!("results {answered:?} follow calls {open:?}"));
                    }
                    open.clear();
                }
                RequestItem::User { .. } | RequestItem::Reply { .. } if !open.is_empty() => {
                    return Err(format!("calls {open:?} have no result"));
                }
                RequestItem::User { .. } => {}
                RequestItem::Reply { calls, .. } => {
                    open = calls.iter().map(|call| call.id.as_str()).collect();
                }
            }
        }
        if open.is_empty() {
            Ok(())
        } else {
            Err(format!("calls {open:?} have no result"))
        }
    }
}
