//! How an MCP server is reached, and how its tools are treated.

use std::collections::BTreeMap;
use std::fmt;

use steadfast_core::input::ReplayRule;
use thiserror::Error;

use crate::command::{CommandOptions, CommandToolError};
use crate::spec::{Approval, ToolSpec};

/// Why an MCP server cannot be used: it is refused at start-up. One that cannot be reached is not:
/// it is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum McpServerError {
    /// Its program cannot be started.
    #[error(transparent)]
    Command(#[from] CommandToolError),
    /// Its address is none.
    #[error("{url:?} is not an address of an MCP server: it starts with http:// or https://")]
    Url {
        /// As configured.
        url: String,
    },
    /// A header cannot be sent.
    #[error(
        "header {name:?} cannot be sent: its name or its value has a character that no header has"
    )]
    Header {
        /// Its name.
        name: String,
    },
    /// The HTTP client cannot be built.
    #[error("the HTTP client cannot be built: {reason}")]
    Client {
        /// Why.
        reason: String,
    },
}

/// How an MCP server is reached, and how its tools are treated.
#[derive(Debug, Clone)]
pub struct McpOptions {
    /// Begins the names of its tools.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// What may be done with a call whose outcome was lost.
    pub replay: ReplayRule,
    /// Its hints about its tools are believed: they may make the rule of one more lenient.
    pub trusted: bool,
    /// Who must agree before a call runs.
    pub approval: Approval,
    /// From the start of an attempt until its outcome, in milliseconds.
    pub deadline_ms: u64,
    /// Calls that run at the same time on this node, over all its tools and all sessions.
    pub concurrency_max: u32,
}

/// How an MCP server is reached.
#[derive(Clone)]
pub enum McpTransport {
    /// It is a program that we start, spoken to over its standard input and output.
    Command(CommandOptions),
    /// It is somewhere else, spoken to over streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// More request headers.
        headers: BTreeMap<String, String>,
    },
}

impl fmt::Debug for McpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(options) => f.debug_tuple("Command").field(options).finish(),
            Self::Http { url, headers } => f
                .debug_struct("Http")
                .field("url", url)
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .finish(),
        }
    }
}

impl McpOptions {
    /// A server whose tools must not be repeated and need nobody's agreement.
    pub fn new(name: impl Into<String>, transport: McpTransport) -> Self {
        Self {
            name: name.into(),
            transport,
            replay: ReplayRule::Never,
            trusted: false,
            approval: Approval::NotApplicable,
            deadline_ms: ToolSpec::DEADLINE_MS,
            concurrency_max: ToolSpec::CONCURRENCY_MAX,
        }
    }
}
