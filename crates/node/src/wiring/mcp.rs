//! Configured MCP servers.

use steadfast_tools::mcp::{McpServer, McpTransport};

use super::tools::{approval, command_options, revealed, rule};
use crate::config::mcp::McpOptions;
use crate::start_error::StartError;

/// One server of an agent; nothing is reached yet.
pub(crate) fn server(
    agent: &str,
    name: &str,
    options: &McpOptions,
) -> Result<McpServer, StartError> {
    let what = format!("agents.{agent}.mcp.{name}");
    let failed = |error: &dyn std::error::Error| StartError::setup(&what, error);
    let transport = match (&options.command, &options.url) {
        (Some(command), _) => {
            McpTransport::Command(command_options(command).map_err(|error| failed(&error))?)
        }
        (None, Some(url)) => McpTransport::Http {
            url: url.clone(),
            headers: revealed(&options.headers).map_err(|error| failed(&error))?,
        },
        (None, None) => {
            let reason = "nothing says how it is reached: give it `url` or `command`".to_owned();
            return Err(StartError::Setup { what, reason });
        }
    };
    McpServer::new(steadfast_tools::mcp::McpOptions {
        replay: rule(options.replay),
        trusted: options.trusted,
        approval: approval(options.approval),
        deadline_ms: options.deadline.as_ms(),
        concurrency_max: options.concurrency_max,
        ..steadfast_tools::mcp::McpOptions::new(name, transport)
    })
    .map_err(|error| failed(&error))
}
