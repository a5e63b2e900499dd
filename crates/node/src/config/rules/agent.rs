//! Rules of `[agents]`.

use std::collections::BTreeSet;

use super::{control, is_plain_name, mcp, provider_of, tool};
use crate::config::Config;
use crate::config::agent::AgentOptions;
use crate::config::key_path::KeyPath;
use crate::config::nearest::nearest;
use crate::config::problem::Problem;
use crate::config::store::StoreKind;
use crate::config::tool::{InDoubtKind, ReplayKind, ToolOptions};

pub(super) fn check(
    config: &Config,
    name: &str,
    agent: &AgentOptions,
    rust_tools: Option<&BTreeSet<String>>,
    problems: &mut Vec<Problem>,
) {
    let path = KeyPath::from(["agents"]).join(name);
    if !is_plain_name(name, 64) {
        let title = format!("`{path}`: an agent's name is 1 to 64 of [A-Za-z0-9_-]");
        problems.push(Problem::key(path.clone(), title));
    }
    let provider = provider_of(&agent.model);
    if !config.providers.contains_key(provider) {
        let at = path.join("model");
        let title = format!("`{at}`: no provider `{provider}` is configured");
        let known = config.providers.keys().map(String::as_str);
        let problem = Problem::value(at, title);
        problems.push(match nearest(provider, known) {
            Some(near) => problem.label(format!("did you mean `{near}`?")),
            None => problem.help(format!("add a section [providers.{provider}]")),
        });
    }
    let wire = config.providers.get(provider).map(|options| options.kind);
    let mut names = BTreeSet::new();
    for (position, options) in agent.tools.iter().enumerate() {
        let at = path.join("tools").join(position);
        if !names.insert(options.name.as_str()) {
            let title = format!(
                "`{at}.name`: agent `{name}` has two tools `{}`",
                options.name
            );
            problems.push(Problem::value(at.join("name"), title).label("the second one"));
        }
        tool::check(&at, options, wire, problems);
        remote(config, &at, options, problems);
        sub_agent(config, &at, options, problems);
    }
    control::check(&path, agent, rust_tools, problems);
    mcp::check(&path, agent, problems);
}

/// A sub-agent is an agent of the configuration, and what holds for a call of it is fixed.
fn sub_agent(config: &Config, path: &KeyPath, tool: &ToolOptions, problems: &mut Vec<Problem>) {
    let Some(agent) = &tool.agent else {
        return;
    };
    if !config.agents.contains_key(agent) {
        let at = path.join("agent");
        let title = format!("`{at}`: no agent `{agent}` is configured");
        let known = config.agents.keys().map(String::as_str);
        let problem = Problem::value(at, title);
        problems.push(match nearest(agent, known) {
            Some(near) => problem.label(format!("did you mean `{near}`?")),
            None => problem.help(format!("add a section [agents.{agent}]")),
        });
    }
    let set = [
        ("replay", tool.replay != ReplayKind::Never),
        ("check", tool.check),
        ("in_doubt", tool.in_doubt != InDoubtKind::TellModel),
        ("attempts_max", tool.attempts_max.is_some()),
        ("output_schema", tool.output_schema.is_some()),
        ("provider", tool.provider.is_some()),
    ];
    for (key, _) in set.into_iter().filter(|(_, set)| *set) {
        let at = path.join(key);
        let title = format!("`{at}`: not of a tool that is an agent");
        let help = "leave it out: such a call is asked again under its own name after a crash";
        problems.push(Problem::key(at, title).help(help));
    }
}

/// A remote tool needs a queue, and with code of its own somebody who runs it.
fn remote(config: &Config, path: &KeyPath, tool: &ToolOptions, problems: &mut Vec<Problem>) {
    if tool.remote && config.store.kind != StoreKind::Nats {
        let at = path.join("remote");
        let title = format!("`{at}`: a redb store has no tool queue");
        let help = "leave `remote` out, or keep sessions at a broker: store.kind = \"nats\"";
        problems.push(Problem::key(at, title).help(help));
    }
}
