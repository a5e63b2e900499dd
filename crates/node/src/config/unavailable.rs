//! Options that people expect and this build does not have. They are refused by
//! name, so that nobody believes that they work.

use crate::config::key_path::KeyPath;

/// Why this key is refused; `None`: it is simply unknown.
pub(crate) fn key(path: &KeyPath) -> Option<&'static str> {
    let keys: Vec<&str> = path.0.iter().map(String::as_str).collect();
    Some(match keys.as_slice() {
        ["node", "replicas"] => REPLICAS,
        ["agents", _, "builtins" | "permission_mode"] => FOREIGN,
        ["agents", _, "workspace"] => "give the agent HTTP or command tools that work on files",
        [
            "agents",
            _,
            "documents" | "doc_tools" | "prompt_docs" | "chat_docs",
        ] => "keep such state behind an HTTP or command tool",
        ["agents", _, "context_url"] | ["agents", _, "tools", _, "context_schema"] => {
            "tools get the message's `metadata`; it is stored, so it must not hold secrets"
        }
        _ => return None,
    })
}

/// Why this value is refused.
pub(crate) fn value(path: &KeyPath, word: &str) -> Option<&'static str> {
    let keys: Vec<&str> = path.0.iter().map(String::as_str).collect();
    match (keys.as_slice(), word) {
        (["agents", _, "harness"], "claude-code" | "codex" | "opencode" | "pi" | "acp") => {
            Some(FOREIGN)
        }
        _ => None,
    }
}

const REPLICAS: &str = "with store.kind = \"nats\", set store.nats.replicas";
const FOREIGN: &str = "use harness = \"native\": Steadfast's own loop over a model provider";
