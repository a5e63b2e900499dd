//! Which tools from elsewhere a model is offered now, against those that its session remembers.

use std::collections::BTreeMap;

use serde_json::json;
use steadfast_core::command::Digest;
use steadfast_core::offered::OfferedTools;
use steadfast_core::session::Session;
use steadfast_tools::catalog::Tool;

use crate::agent::Agent;

/// Names in one note, at most.
const NAMED_MAX: usize = 8;

/// The tools of today and what a model is told of the difference; `None` if there is none.
pub(super) fn difference(
    session: &Session,
    agent: &Agent,
) -> Option<(OfferedTools, Option<String>)> {
    let sources = agent.catalog.sources();
    if sources.is_empty() && session.offered.is_empty() {
        return None;
    }
    // What one message leaves out is not gone.
    let offered = agent.catalog.offered(&agent.filter);
    let from_elsewhere = offered.iter().filter(|tool| tool.spec.mcp.is_some());
    let tools = from_elsewhere.map(|tool| (tool.spec.name.clone(), digest(tool)));
    let reached = sources.iter().map(|source| (source.name(), source.stock()));
    let down: BTreeMap<String, String> = reached
        .filter(|(_, stock)| stock.is_missing())
        .map(|(name, stock)| (name.to_owned(), stock.state.of(name)))
        .collect();
    let now = OfferedTools {
        tools: tools.collect(),
        missing: down.keys().cloned().collect(),
    };
    let before = &*session.offered;
    if now == *before {
        return None;
    }
    let note = note(before, &now, &down);
    Some((now, note))
}

/// What the model sees of a tool.
pub(crate) fn digest(tool: &Tool) -> Digest {
    let seen = json!([tool.spec.description, tool.spec.input_schema]);
    Digest::of(seen.to_string().as_bytes())
}

fn note(
    before: &OfferedTools,
    now: &OfferedTools,
    down: &BTreeMap<String, String>,
) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    let newly = down
        .iter()
        .filter(|(name, _)| !before.missing.contains(name));
    words.extend(newly.map(|(_, why)| format!("{why}; its tools are not there now")));
    let back = before
        .missing
        .iter()
        .filter(|name| !down.contains_key(*name));
    words.extend(back.map(|name| format!("the MCP server {name:?} is reached again")));
    if !before.tools.is_empty() {
        let gone = before
            .tools
            .keys()
            .filter(|name| !now.tools.contains_key(*name));
        words.extend(list("tools that are gone", gone));
        let changed = now.tools.iter().filter(|(name, digest)| {
            let earlier = before.tools.get(*name);
            earlier.is_some_and(|earlier| earlier != *digest)
        });
        words.extend(list("tools that changed", changed.map(|(name, _)| name)));
        let new = now
            .tools
            .keys()
            .filter(|name| !before.tools.contains_key(*name));
        words.extend(list("new tools", new));
    }
    (!words.is_empty()).then(|| format!("Your tools changed: {}.", words.join("; ")))
}

fn list<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Option<String> {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() {
        return None;
    }
    let shown = names.get(..NAMED_MAX).unwrap_or(&names).join(", ");
    let more = names.len().saturating_sub(NAMED_MAX);
    Some(match more {
        0 => format!("{what}: {shown}"),
        more => format!("{what}: {shown} and {more} more"),
    })
}
