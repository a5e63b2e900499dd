//! An agent's own options in a request's body.

use serde_json::{Map, Value};

/// Lists that an option makes longer instead of replacing them.
const LISTS: [&str; 2] = ["tools", "include"];

/// Merges options into a body: objects key by key, lists of tools and inclusions by appending,
/// a null removes, anything else replaces. `fixed` keys are the wire's own and stay.
pub(crate) fn merge(body: &mut Map<String, Value>, options: &Value, fixed: &[&str]) {
    let Some(options) = options.as_object() else {
        return;
    };
    for (key, option) in options {
        if fixed.contains(&key.as_str()) {
            continue;
        }
        match (body.get_mut(key), option) {
            (Some(Value::Array(list)), Value::Array(more)) if LISTS.contains(&key.as_str()) => {
                for value in more {
                    if !list.contains(value) {
                        list.push(value.clone());
                    }
                }
            }
            (Some(Value::Object(inner)), option @ Value::Object(_)) => merge(inner, option, &[]),
            (_, Value::Null) => {
                body.remove(key);
            }
            _ => {
                body.insert(key.clone(), option.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_merged_and_the_wires_own_keys_stay() {
        let mut body = json!({"model": "m", "stream": true, "include": ["a"],
            "reasoning": {"effort": "low", "summary": "auto"}, "store": false});
        let options = json!({"model": "other", "stream": false, "include": ["a", "b"],
            "reasoning": {"effort": "high"}, "store": null, "top_p": 0.5});
        merge(
            body.as_object_mut().unwrap(),
            &options,
            &["model", "stream"],
        );
        assert_eq!(
            body,
            json!({"model": "m", "stream": true, "include": ["a", "b"],
                "reasoning": {"effort": "high", "summary": "auto"}, "top_p": 0.5})
        );
    }
}
