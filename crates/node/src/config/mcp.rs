//! `[agents.NAME.mcp.SERVER]`: an MCP server whose tools an agent has.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::duration::Duration;
use crate::config::tool::{ApprovalKind, CommandOptions, ReplayKind};

/// An MCP server. It has exactly one of `url` and `command`. Its tools are named `SERVER__TOOL`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpOptions {
    /// Where it is, if it speaks streamable HTTP.
    #[serde(default)]
    pub url: Option<String>,
    /// More request headers; a value may be `env:NAME` or `file:PATH`. Only with `url`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The program that is started and spoken to over its standard input and output.
    #[serde(default)]
    pub command: Option<CommandOptions>,
    /// What happens when a crash cuts off a call of one of its tools.
    #[serde(default)]
    pub replay: ReplayKind,
    /// Believe what it says of its tools: one that only reads is `safe`, one that is idempotent
    /// `keyed`, whatever `replay` says.
    #[serde(default)]
    pub trusted: bool,
    /// Who must agree before a call of one of its tools runs.
    #[serde(default)]
    pub approval: ApprovalKind,
    /// From the start of an attempt until its outcome must be there.
    #[serde(default = "deadline")]
    pub deadline: Duration,
    /// Calls that run at the same time on this node, over all its tools and all sessions.
    #[serde(default = "concurrency_max")]
    #[schemars(range(min = 1))]
    pub concurrency_max: u32,
}

fn deadline() -> Duration {
    Duration::from_secs(600)
}

fn concurrency_max() -> u32 {
    64
}
