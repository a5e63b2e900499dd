//! What compatible servers want otherwise.

/// Peculiarities of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Name of the limit of output tokens.
    pub output_tokens_field: &'static str,
    /// Takes a name for its prompt cache.
    pub has_cache_key: bool,
    /// Takes `stream_options`.
    pub has_stream_options: bool,
    /// Takes a JSON Schema that the answer is made to fit.
    pub has_response_schema: bool,
    /// Wants call ids of exactly nine letters and digits.
    pub wants_short_ids: bool,
    /// Refuses a message of the user right after a tool's.
    pub wants_reply_after_tools: bool,
    /// Wants reasoning with each tool call of the history, be it empty.
    pub wants_reasoning: bool,
    /// Wants a signature with each tool call of the history.
    pub wants_signature: bool,
    /// Reasoning is sent back to the server that gave it.
    pub replays_reasoning: bool,
}

impl Default for Dialect {
    /// What most compatible servers take.
    fn default() -> Self {
        Self {
            output_tokens_field: "max_tokens",
            has_cache_key: false,
            has_response_schema: false,
            has_stream_options: true,
            wants_short_ids: false,
            wants_reply_after_tools: false,
            wants_reasoning: false,
            wants_signature: false,
            replays_reasoning: true,
        }
    }
}

impl Dialect {
    /// The dialect of the server at this host.
    pub fn of_host(host: &str) -> Self {
        let common = Self::default();
        let is = |domain: &str| {
            host == domain
                || host
                    .strip_suffix(domain)
                    .is_some_and(|rest| rest.ends_with('.'))
        };
        if is("api.openai.com") || is("openai.azure.com") {
            Self {
                output_tokens_field: "max_completion_tokens",
                has_cache_key: true,
                has_response_schema: true,
                ..common
            }
        } else if is("mistral.ai") {
            Self {
                has_stream_options: false,
                wants_short_ids: true,
                wants_reply_after_tools: true,
                ..common
            }
        } else if is("deepseek.com") {
            Self {
                wants_reasoning: true,
                ..common
            }
        } else if is("generativelanguage.googleapis.com") {
            Self {
                wants_signature: true,
                ..common
            }
        } else {
            common
        }
    }
}
