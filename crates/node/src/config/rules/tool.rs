//! Rules of `[[agents.NAME.tools]]`.

use super::{http_url, is_plain_name, provider_tool, text_or_secret};
use crate::config::key_path::KeyPath;
use crate::config::problem::Problem;
use crate::config::provider::ProviderKind;
use crate::config::tool::{ApprovalKind, InDoubtKind, ReplayKind, ToolOptions};

pub(super) fn check(
    path: &KeyPath,
    tool: &ToolOptions,
    wire: Option<ProviderKind>,
    problems: &mut Vec<Problem>,
) {
    if !is_plain_name(&tool.name, 64) {
        let at = path.join("name");
        let title = format!("`{at}`: a tool's name is 1 to 64 of [A-Za-z0-9_-]");
        problems.push(Problem::value(at, title));
    }
    executor(path, tool, problems);
    provider_tool::check(path, tool, wire, problems);
    replay(path, tool, problems);
    if tool.approval_expires_after.is_some() && tool.approval != ApprovalKind::UserApproval {
        let at = path.join("approval_expires_after");
        let title = format!("`{at}`: no approval is asked for");
        problems.push(
            Problem::key(at, title).help("add approval = \"user-approval\", or leave it out"),
        );
    }
    schemas(path, tool, problems);
}

fn executor(path: &KeyPath, tool: &ToolOptions, problems: &mut Vec<Problem>) {
    let count = usize::from(tool.http.is_some())
        + usize::from(tool.command.is_some())
        + usize::from(tool.agent.is_some())
        + usize::from(tool.client);
    let elsewhere = count == 0 && (tool.provider.is_some() || tool.remote);
    let alone = tool.client || tool.agent.is_some();
    if (count != 1 && !elsewhere) || (alone && tool.remote) {
        let what = if count == 0 {
            "nothing runs it"
        } else {
            "more than one thing runs it"
        };
        let title = format!("`{path}`: tool `{}`: {what}", tool.name);
        problems.push(
            Problem::key(path.clone(), title)
                .help("give it exactly one of http = { url = ... }, command = { program = ... }, agent = \"NAME\", client = true, remote = true; remote = true also goes with http or command"),
        );
    }
    if let Some(http) = &tool.http {
        let at = path.join("http");
        http_url(&at.join("url"), &http.url, problems);
        for (name, value) in &http.headers {
            text_or_secret(&at.join("headers").join(name), value, problems);
        }
    }
    if let Some(command) = &tool.command {
        for (name, value) in &command.env {
            text_or_secret(
                &path.join("command").join("env").join(name),
                value,
                problems,
            );
        }
    }
}

fn replay(path: &KeyPath, tool: &ToolOptions, problems: &mut Vec<Problem>) {
    let mut only = |key: &str, rule: &str| {
        let at = path.join(key);
        let title = format!("`{at}`: only a tool with {rule} has it");
        problems.push(Problem::key(at, title).help("change `replay`, or leave it out"));
    };
    let never = tool.replay == ReplayKind::Never;
    if tool.check && !never {
        only("check", "replay = \"never\"");
    }
    if tool.in_doubt != InDoubtKind::TellModel && !never {
        only("in_doubt", "replay = \"never\"");
    }
    if tool.attempts_max.is_some_and(|attempts| attempts > 1) && never {
        only("attempts_max", "replay = \"safe\" or \"keyed\"");
    }
    if tool.check && tool.client {
        let at = path.join("check");
        let title = format!("`{at}`: a client cannot be asked what happened");
        problems.push(Problem::key(at, title).help("leave it out"));
    }
}

fn schemas(path: &KeyPath, tool: &ToolOptions, problems: &mut Vec<Problem>) {
    let schemas = [
        ("input_schema", Some(&tool.input_schema)),
        ("output_schema", tool.output_schema.as_ref()),
    ];
    for (key, schema) in schemas {
        let Some(schema) = schema else { continue };
        let value = serde_json::Value::Object(schema.clone());
        self::schema(&path.join(key), &value, problems);
    }
    if tool.input_schema.get("type") != Some(&"object".into()) {
        let at = path.join("input_schema");
        let title = format!("`{at}`: a tool's input is an object");
        problems.push(Problem::value(at, title).help("add type = \"object\""));
    }
}

/// A schema that stands at this place of the configuration.
pub(super) fn schema(at: &KeyPath, schema: &serde_json::Value, problems: &mut Vec<Problem>) {
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        let title = format!("`{at}`: not a JSON Schema: {error}");
        problems.push(Problem::value(at.clone(), title));
    } else if let Err(error) = jsonschema::draft202012::new(schema) {
        let title = format!("`{at}`: {error}");
        problems.push(Problem::value(at.clone(), title));
    }
}
