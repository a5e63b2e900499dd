//! Token counts in the spellings of compatible servers.

use serde_json::Value;
use steadfast_core::content::Usage;

use crate::json::count_of;

pub(super) fn usage(usage: &Value) -> Usage {
    let detail = |group: &str, key: &str| usage.get(group).and_then(|group| count_of(group, key));
    let input = count_of(usage, "prompt_tokens").unwrap_or(0);
    let mut output = count_of(usage, "completion_tokens").unwrap_or(0);
    let reasoning = detail("completion_tokens_details", "reasoning_tokens")
        .or(count_of(usage, "reasoning_tokens"))
        .unwrap_or(0);
    // Some count reasoning beside the completion; the total gives them away.
    let apart = input.saturating_add(output).saturating_add(reasoning);
    if reasoning > 0 && count_of(usage, "total_tokens") == Some(apart) {
        output = output.saturating_add(reasoning);
    }
    Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: detail("prompt_tokens_details", "cached_tokens")
            .or(count_of(usage, "prompt_cache_hit_tokens"))
            .or(count_of(usage, "cached_tokens"))
            .unwrap_or(0),
        cache_write_tokens: detail("prompt_tokens_details", "cache_write_tokens").unwrap_or(0),
        reasoning_tokens: reasoning,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasoning_counted_apart_is_output_all_the_same() {
        let apart = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 22,
            "completion_tokens_details": {"reasoning_tokens": 7},
            "prompt_tokens_details": {"cached_tokens": 4}});
        let within = json!({"prompt_tokens": 10, "completion_tokens": 12, "total_tokens": 22,
            "completion_tokens_details": {"reasoning_tokens": 7}, "prompt_cache_hit_tokens": 4});
        let expected = Usage {
            input_tokens: 10,
            output_tokens: 12,
            cache_read_tokens: 4,
            cache_write_tokens: 0,
            reasoning_tokens: 7,
        };
        assert_eq!(usage(&apart), expected);
        assert_eq!(usage(&within), expected);
    }
}
