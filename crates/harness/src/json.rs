//! Reading JSON of which little is certain.

use serde_json::{Map, Value};

/// The text under a key; empty if there is none.
pub(crate) fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The number under a key; nothing if it is absent, null or no count.
pub(crate) fn count_of(value: &Value, key: &str) -> Option<u64> {
    value.get(key).and_then(Value::as_u64)
}

/// The array under a key; empty if there is none.
pub(crate) fn list_of<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// What is left of an object without these keys and without nulls, if anything is.
pub(crate) fn residue(mut object: Map<String, Value>, keys: &[&str]) -> Option<Value> {
    object.retain(|key, value| !value.is_null() && !keys.contains(&key.as_str()));
    (!object.is_empty()).then_some(Value::Object(object))
}

/// The object that a residue was taken from, without the keys that were taken out.
pub(crate) fn object(residue: Option<&Value>) -> Map<String, Value> {
    residue
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// Takes a text out of an object.
pub(crate) fn take_text(object: &mut Map<String, Value>, key: &str) -> String {
    match object.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Adds to the text under a key.
pub(crate) fn push_text(object: &mut Map<String, Value>, key: &str, more: &str) {
    if let Some(Value::String(text)) = object.get_mut(key) {
        text.push_str(more);
    } else {
        object.insert(key.to_owned(), Value::from(more));
    }
}
