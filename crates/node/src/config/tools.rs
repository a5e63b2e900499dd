//! `[tools]`: how many tool calls run at the same time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tool calls of the node. What does not fit waits, and sessions take turns; each tool has a bound
/// of its own beside these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolsOptions {
    /// Calls of HTTP endpoints at the same time, at most.
    #[schemars(range(min = 1))]
    pub http_max: u32,
    /// Calls of commands at the same time, at most; each is a process.
    #[schemars(range(min = 1))]
    pub commands_max: u32,
    /// Calls of tools of MCP servers at the same time, at most.
    #[schemars(range(min = 1))]
    pub mcp_max: u32,
    /// Calls of Rust functions at the same time, at most.
    #[schemars(range(min = 1))]
    pub functions_max: u32,
    /// Calls of blocking Rust functions at the same time, at most; each is a thread.
    #[schemars(range(min = 1))]
    pub blocking_max: u32,
    /// Jobs of remote tools that this node has out of the tool queue at the same time, at most. One
    /// tool takes no more than three quarters of them.
    #[schemars(range(min = 1))]
    pub jobs_max: u32,
    /// Threads for Rust functions that are not declared as blocking. One that blocks all the same
    /// holds up other functions and nothing else of the node. 0: they share the node's own threads.
    pub function_threads: u32,
    /// Agents that stand above one another as tools, at most: a call that would go deeper is an
    /// error for the model.
    pub agent_depth_max: u32,
}

impl Default for ToolsOptions {
    fn default() -> Self {
        Self {
            http_max: 1_024,
            commands_max: 64,
            mcp_max: 1_024,
            functions_max: 4_096,
            blocking_max: 64,
            jobs_max: 64,
            function_threads: 2,
            agent_depth_max: 4,
        }
    }
}
