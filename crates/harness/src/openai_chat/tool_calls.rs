//! Tool calls as they come in pieces, by servers that disagree on how.

use serde_json::{Map, Value};
use steadfast_core::content::CallInput;

use crate::json::{count_of, text_of};
use crate::reply::call_input;

/// One call as it grows.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    arguments: String,
    /// What stands beside the function, for example a signature.
    pub(super) rest: Map<String, Value>,
}

impl PartialCall {
    pub(super) fn input(&self, was_cut_off: bool) -> CallInput {
        let input = call_input(&self.arguments, was_cut_off);
        // Some models write the arguments as a text that holds the JSON.
        if let CallInput::Json(Value::String(text)) = &input
            && let Ok(object @ Value::Object(_)) = serde_json::from_str(text)
        {
            return CallInput::Json(object);
        }
        input
    }
}

/// The calls of one reply.
#[derive(Debug, Default)]
pub(super) struct PartialCalls {
    pub(super) list: Vec<PartialCall>,
}

/// What a piece did.
pub(super) struct Grown {
    /// Which call.
    pub(super) position: usize,
    /// It is new.
    pub(super) is_new: bool,
    /// More of its arguments.
    pub(super) text: String,
}

impl PartialCalls {
    /// Adds a piece of a call.
    pub(super) fn grow(&mut self, piece: &Value) -> Grown {
        let function = piece.get("function").unwrap_or(&Value::Null);
        let (id, name) = (text_of(piece, "id"), text_of(function, "name"));
        let index = count_of(piece, "index");
        let found = self.find(index, id, name);
        let is_new = found.is_none();
        if is_new {
            self.list.push(PartialCall::default());
        }
        let position = found.unwrap_or(self.list.len().saturating_sub(1));
        let mut text = String::new();
        if let Some(call) = self.list.get_mut(position) {
            call.index = call.index.or(index);
            if call.id.is_empty() {
                id.clone_into(&mut call.id);
            }
            if call.name.is_empty() {
                name.clone_into(&mut call.name);
            }
            text = match function.get("arguments") {
                Some(Value::String(text)) => text.clone(),
                // Whole and parsed already; a repetition of it adds nothing.
                Some(value @ (Value::Object(_) | Value::Array(_))) if call.arguments.is_empty() => {
                    value.to_string()
                }
                _ => String::new(),
            };
            call.arguments.push_str(&text);
            for (key, value) in piece.as_object().into_iter().flatten() {
                let is_common = ["index", "id", "type", "function"].contains(&key.as_str());
                if !is_common && !value.is_null() {
                    call.rest.insert(key.clone(), value.clone());
                }
            }
        }
        Grown {
            position,
            is_new,
            text,
        }
    }

    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let differs = |call: &PartialCall| !id.is_empty() && !call.id.is_empty() && call.id != id;
        match index {
            // Some servers give every call of a reply the index 0.
            Some(_) => self
                .list
                .iter()
                .rposition(|call| call.index == index && !differs(call)),
            None if !id.is_empty() => self.list.iter().rposition(|call| call.id == id),
            // A name begins a call; a piece without either goes on with the last.
            None if !name.is_empty() => None,
            None => self.list.len().checked_sub(1),
        }
    }
}
