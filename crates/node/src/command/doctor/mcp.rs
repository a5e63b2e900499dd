//! Looks at MCP servers: reaches each once and lists its tools.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::input::ReplayRule;
use steadfast_tools::catalog::{SourceState, ToolSource};
use steadfast_tools::mcp::McpServer;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Finding;
use crate::config::Config;
use crate::config::mcp::McpOptions;
use crate::wiring;

/// How long a server may take; one that is a program may have to be fetched first.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn look(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (agent, options) in &config.agents {
        for (name, server) in &options.mcp {
            findings.extend(server_findings(agent, name, server).await);
        }
    }
    findings
}

async fn server_findings(agent: &str, name: &str, options: &McpOptions) -> Vec<Finding> {
    let subject = format!("agent {agent}, MCP server {name}");
    let remedy = match &options.command {
        Some(command) => format!(
            "run `{} {}` by hand and see what it says; it is given only PATH and what env and \
             env_passed name",
            command.program,
            command.args.join(" ")
        ),
        None => "start it, or check url and headers".to_owned(),
    };
    let remedy = format!("{remedy}; a node starts without it and tries it again");
    let server = match wiring::mcp::server(agent, name, options) {
        Ok(server) => Arc::new(server),
        Err(error) => return vec![Finding::bad(subject, error.to_string(), remedy)],
    };
    let stop = CancellationToken::new();
    let running = server.run(stop.clone());
    let asked = async {
        let tried = timeout(PATIENCE, server.tried()).await;
        let stock = server.stock();
        stop.cancel();
        tried.map(|()| stock)
    };
    let (stock, ()) = tokio::join!(asked, running);
    let silent = || format!("it said nothing within {} s", PATIENCE.as_secs());
    let stock = match stock {
        Ok(stock) => stock,
        Err(_) => return vec![Finding::bad(subject, silent(), remedy)],
    };
    match &stock.state {
        SourceState::Up => {}
        SourceState::Starting => return vec![Finding::bad(subject, silent(), remedy)],
        SourceState::Down { reason } => {
            return vec![Finding::bad(
                subject,
                format!("not reached: {reason}"),
                remedy,
            )];
        }
    }
    let mut findings = vec![Finding::good(
        &subject,
        reached(&server, stock.tools().count()),
    )];
    let never = |tool: &&Arc<steadfast_tools::catalog::Tool>| tool.spec.replay == ReplayRule::Never;
    let never: Vec<&str> = stock
        .tools()
        .filter(never)
        .map(|tool| tool.spec.name.as_str())
        .collect();
    if !never.is_empty() {
        findings.push(Finding::doubtful(
            &subject,
            format!("never run again after a crash: {}", never.join(", ")),
            "say trusted = true if what the server says of its tools is true, or replay = \"safe\" if none of them changes anything",
        ));
    }
    for refused in &stock.refused {
        findings.push(Finding::doubtful(
            &subject,
            format!("tool {} is not offered: {}", refused.tool, refused.reason),
            "change the tool at its server",
        ));
    }
    findings
}

fn reached(server: &McpServer, tools: usize) -> String {
    let seen = server.seen();
    let who = seen.as_ref().and_then(|seen| seen.name.clone());
    let who = who.unwrap_or_else(|| "a server without a name".to_owned());
    let protocol = seen.map(|seen| seen.protocol).unwrap_or_default();
    format!("{who}, protocol {protocol}, {tools} tools")
}
