//! What is known of Anthropic's models by their names.

use serde_json::{Map, Value, json};

/// The version in a model's name: `claude-opus-4-6-20260101` and `claude-opus-4.6` are both 4.6.
fn version(model: &str) -> Option<(u32, u32)> {
    let (_, rest) = model.rsplit_once("claude-")?;
    // A date is no minor version.
    let short = |text: &&str| text.len() <= 2;
    let mut numbers = rest
        .split(['-', '.', '@', ':', '['])
        .skip_while(|word| word.parse::<u32>().is_err())
        .map_while(|word| Some(word).filter(short)?.parse().ok());
    let major = numbers.next()?;
    Some((major, numbers.next().unwrap_or(0)))
}

/// Tokens of request and reply together.
pub(crate) fn context_window_tokens(model: &str) -> Option<u64> {
    let version = version(model)?;
    let is_large = version >= (5, 0) && !model.contains("haiku");
    Some(if is_large { 1_000_000 } else { 200_000 })
}

/// Output tokens asked for when nobody says: the wire wants a number.
pub(super) fn output_tokens_default(model: &str) -> u64 {
    match version(model) {
        Some((3, minor)) if minor < 5 => 4_096,
        Some((3, minor)) if minor < 7 => 8_192,
        _ => 32_000,
    }
}

/// Whether the model ties its thinking to the exact conversation before it.
fn binds_thinking(model: &str) -> bool {
    version(model).is_some_and(|version| version >= (5, 1))
}

/// Asks that thinking tied to a history that has changed since is dropped by the server instead of
/// refused: instructions, tools and the compacted beginning of a history do change in a session.
pub(super) fn tolerate_changed_history(body: &mut Map<String, Value>, model: &str) {
    if !binds_thinking(model) {
        return;
    }
    let thinking = body
        .entry("thinking")
        .or_insert_with(|| json!({"type": "adaptive"}));
    if let Some(thinking) = thinking.as_object_mut()
        && thinking.get("type") != Some(&json!("disabled"))
    {
        thinking
            .entry("block_binding")
            .or_insert_with(|| json!({"prefix_mismatch_behavior": "drop_block"}));
    }
}

/// The beta that a body needs to be understood.
pub(crate) fn beta_header(body: &Value) -> Option<&'static str> {
    body.get("thinking")?.get("block_binding")?;
    Some("thinking-binding-controls-2026-08-01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_names() {
        for (model, found) in [
            ("claude-3-5-haiku-20241022", Some((3, 5))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-opus-4-6", Some((4, 6))),
            ("claude-sonnet-5.5", Some((5, 5))),
            ("anthropic/claude-fable-5-1@20260901", Some((5, 1))),
            ("claude-opus-5-20260901", Some((5, 0))),
            ("deepseek-v4", None),
        ] {
            assert_eq!(version(model), found, "{model}");
        }
    }

    #[test]
    fn only_models_that_bind_their_thinking_are_asked_to_tolerate_changes() {
        let asked = |model: &str, thinking: Value| {
            let mut body = Map::new();
            if !thinking.is_null() {
                body.insert("thinking".into(), thinking);
            }
            tolerate_changed_history(&mut body, model);
            body.remove("thinking").unwrap_or_default()
        };
        let dropping = json!({"prefix_mismatch_behavior": "drop_block"});
        assert_eq!(asked("claude-opus-5", Value::Null), Value::Null);
        assert_eq!(
            asked("claude-fable-5-1", Value::Null),
            json!({"type": "adaptive", "block_binding": dropping})
        );
        let own =
            json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}});
        assert_eq!(asked("claude-fable-5-1", own.clone()), own);
        let off = json!({"type": "disabled"});
        assert_eq!(asked("claude-fable-5-1", off.clone()), off);
    }
}
