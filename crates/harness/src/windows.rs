//! Context windows of well-known models.

use crate::anthropic;

/// Tokens of request and reply together, as far as the model's name tells.
///
/// The smallest of what a family of names stands for: a window taken too large fails requests, one
/// taken too small only compacts early.
pub(crate) fn context_window_tokens(model: &str) -> Option<u64> {
    const BY_PREFIX: [(&str, u64); 9] = [
        ("gpt-4.1", 1_047_576),
        ("gpt-4o", 128_000),
        ("gpt-4-turbo", 128_000),
        ("gpt-5-chat", 128_000),
        ("gpt-5", 400_000),
        ("o1", 200_000),
        ("o3", 200_000),
        ("o4", 200_000),
        ("deepseek-", 128_000),
    ];
    // Gateways put the maker in front.
    let name = model.rsplit('/').next().unwrap_or(model);
    anthropic::context_window_tokens(name).or_else(|| {
        BY_PREFIX
            .iter()
            .find(|(prefix, _)| name.starts_with(prefix))
            .map(|(_, tokens)| *tokens)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_from_names() {
        for (model, expected) in [
            ("claude-sonnet-5.5", Some(1_000_000)),
            ("anthropic/claude-haiku-4-5", Some(200_000)),
            ("openai/gpt-5.2-codex", Some(400_000)),
            ("gpt-4o-mini", Some(128_000)),
            ("qwen3:8b", None),
        ] {
            assert_eq!(context_window_tokens(model), expected, "{model}");
        }
    }
}
