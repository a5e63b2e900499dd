//! Rules of `[agents.NAME.mcp]`.

use super::{http_url, is_plain_name, text_or_secret};
use crate::config::agent::AgentOptions;
use crate::config::key_path::KeyPath;
use crate::config::mcp::McpOptions;
use crate::config::problem::Problem;

pub(super) fn check(path: &KeyPath, agent: &AgentOptions, problems: &mut Vec<Problem>) {
    for (name, server) in &agent.mcp {
        let at = path.join("mcp").join(name);
        if !is_plain_name(name, 32) || name.contains("__") || name.ends_with('_') {
            let title =
                format!("`{at}`: an MCP server's name is 1 to 32 of [A-Za-z0-9_-], without `__`");
            let help = "it begins the names of its tools: SERVER__TOOL";
            problems.push(Problem::key(at.clone(), title).help(help));
        }
        reached(&at, server, problems);
        let prefix = format!("{name}__");
        let same =
            |(_, tool): &(usize, &crate::config::tool::ToolOptions)| tool.name.starts_with(&prefix);
        if let Some((position, tool)) = agent.tools.iter().enumerate().find(same) {
            let at = path.join("tools").join(position).join("name");
            let title = format!(
                "`{at}`: `{}` is a name of a tool of the MCP server `{name}`",
                tool.name
            );
            problems.push(Problem::value(at, title).help("rename the tool, or the server"));
        }
    }
}

fn reached(at: &KeyPath, server: &McpOptions, problems: &mut Vec<Problem>) {
    let title = match (&server.url, &server.command) {
        (Some(_), None) | (None, Some(_)) => None,
        (None, None) => Some("nothing says how it is reached"),
        (Some(_), Some(_)) => Some("two things say how it is reached"),
    };
    if let Some(title) = title {
        problems.push(
            Problem::key(at.clone(), format!("`{at}`: {title}"))
                .help("give it exactly one of url = \"http://...\", command = { program = ... }"),
        );
    }
    if let Some(url) = &server.url {
        http_url(&at.join("url"), url, problems);
    } else if !server.headers.is_empty() {
        let at = at.join("headers");
        let title = format!("`{at}`: only a server with `url` is sent headers");
        problems.push(Problem::key(at, title).help("leave it out, or use command.env"));
    }
    for (name, value) in &server.headers {
        text_or_secret(&at.join("headers").join(name), value, problems);
    }
    for (name, value) in server.command.iter().flat_map(|command| &command.env) {
        text_or_secret(&at.join("command").join("env").join(name), value, problems);
    }
}
