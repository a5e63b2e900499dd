//! Rules of how an agent's loop is steered.

use std::collections::BTreeSet;

use serde_json::Value;
use steadfast_core::command::ToolChoice;

use super::tool;
use crate::config::agent::{AgentOptions, StepOptions};
use crate::config::key_path::KeyPath;
use crate::config::nearest::nearest;
use crate::config::problem::Problem;

pub(super) fn check(
    path: &KeyPath,
    agent: &AgentOptions,
    rust_tools: Option<&BTreeSet<String>>,
    problems: &mut Vec<Problem>,
) {
    let configured = agent.tools.iter().map(|tool| tool.name.as_str());
    let known = Known {
        names: configured
            .chain(rust_tools.into_iter().flatten().map(String::as_str))
            .collect(),
        servers: agent.mcp.keys().map(String::as_str).collect(),
    };
    filter(
        path,
        agent.active_tools.as_deref(),
        agent.inactive_tools.as_deref(),
        &known,
        problems,
    );
    choice(path, Some(&agent.tool_choice), &known, problems);
    names(
        &path.join("stop_after_tools"),
        &agent.stop_after_tools,
        &known,
        problems,
    );
    for (position, rule) in agent.steps.iter().enumerate() {
        step(&path.join("steps").join(position), rule, &known, problems);
    }
    if let Some(schema) = &agent.output_schema {
        let schema = Value::Object(schema.clone());
        tool::schema(&path.join("output_schema"), &schema, problems);
    }
}

/// Names of tools that an agent has or may have.
struct Known<'a> {
    names: BTreeSet<&'a str>,
    /// MCP servers, which say themselves what they have.
    servers: Vec<&'a str>,
}

impl Known<'_> {
    fn may_have(&self, name: &str) -> bool {
        let server = name.split_once("__").map(|(server, _)| server);
        self.names.contains(name) || server.is_some_and(|server| self.servers.contains(&server))
    }
}

fn step(path: &KeyPath, rule: &StepOptions, known: &Known<'_>, problems: &mut Vec<Problem>) {
    if rule.first == 0 {
        let at = path.join("first");
        let title = format!("`{at}`: steps are counted from 1");
        problems.push(Problem::value(at, title));
    }
    if rule.last.is_some_and(|last| last < rule.first) {
        let at = path.join("last");
        let title = format!("`{at}`: before `first`, so the rule never holds");
        problems.push(Problem::value(at, title));
    }
    filter(
        path,
        rule.active_tools.as_deref(),
        rule.inactive_tools.as_deref(),
        known,
        problems,
    );
    choice(path, rule.tool_choice.as_ref(), known, problems);
}

fn filter(
    path: &KeyPath,
    active: Option<&[String]>,
    inactive: Option<&[String]>,
    known: &Known<'_>,
    problems: &mut Vec<Problem>,
) {
    if active.is_some() && inactive.is_some() {
        let at = path.join("inactive_tools");
        let title = format!("`{at}`: not together with `active_tools`");
        problems.push(Problem::key(at, title).help("keep one of the two lists"));
    }
    for (key, list) in [("active_tools", active), ("inactive_tools", inactive)] {
        names(&path.join(key), list.unwrap_or_default(), known, problems);
    }
}

fn choice(
    path: &KeyPath,
    choice: Option<&ToolChoice>,
    known: &Known<'_>,
    problems: &mut Vec<Problem>,
) {
    if let Some(name) = choice.and_then(ToolChoice::tool) {
        named(path.join("tool_choice").join("tool"), name, known, problems);
    }
}

fn names(path: &KeyPath, names: &[String], known: &Known<'_>, problems: &mut Vec<Problem>) {
    for (position, name) in names.iter().enumerate() {
        named(path.join(position), name, known, problems);
    }
}

fn named(at: KeyPath, name: &str, known: &Known<'_>, problems: &mut Vec<Problem>) {
    if known.may_have(name) {
        return;
    }
    let problem = Problem::value(at.clone(), format!("`{at}`: no tool `{name}`"));
    problems.push(match nearest(name, known.names.iter().copied()) {
        Some(near) => problem.label(format!("did you mean `{near}`?")),
        None => problem.label("unknown tool"),
    });
}
