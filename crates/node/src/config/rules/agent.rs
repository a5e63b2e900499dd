//! Rules of `[agents]`.

use std::collections::BTreeSet;

use super::{is_plain_name, provider_of, tool};
use crate::config::Config;
use crate::config::agent::AgentOptions;
use crate::config::key_path::KeyPath;
use crate::config::nearest::nearest;
use crate::config::problem::Problem;

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
    }
    filters(&path, agent, rust_tools, problems);
}

fn filters(
    path: &KeyPath,
    agent: &AgentOptions,
    rust_tools: Option<&BTreeSet<String>>,
    problems: &mut Vec<Problem>,
) {
    if agent.active_tools.is_some() && agent.inactive_tools.is_some() {
        let at = path.join("inactive_tools");
        let title = format!("`{at}`: not together with `active_tools`");
        problems.push(Problem::key(at, title).help("keep one of the two lists"));
    }
    let lists = [
        ("active_tools", &agent.active_tools),
        ("inactive_tools", &agent.inactive_tools),
    ];
    for (key, list) in lists {
        for (position, name) in list.iter().flatten().enumerate() {
            let configured = || agent.tools.iter().map(|tool| tool.name.as_str());
            let known = || configured().chain(rust_tools.into_iter().flatten().map(String::as_str));
            if known().any(|tool| tool == name) {
                continue;
            }
            let at = path.join(key).join(position);
            let problem = Problem::value(at.clone(), format!("`{at}`: no tool `{name}`"));
            problems.push(match nearest(name, known()) {
                Some(near) => problem.label(format!("did you mean `{near}`?")),
                None => problem.label("unknown tool"),
            });
        }
    }
}
