//! What the schema cannot say: names that refer to each other, options that exclude each other,
//! addresses, secrets, and combinations that would be weak.

mod agent;
mod control;
mod mcp;
mod node;
mod provider;
mod provider_tool;
mod store;
mod tool;

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Config;
use crate::config::document::names_secret;
use crate::config::key_path::KeyPath;
use crate::config::problem::Problem;
use crate::config::secret::Secret;

/// Names of tools written in Rust, by agent.
pub type RustTools = BTreeMap<String, BTreeSet<String>>;

/// All rules that the configuration breaks.
///
/// `rust_tools` are names of tools, by agent, that are not part of the configuration.
pub(crate) fn check(config: &Config, rust_tools: &RustTools) -> Vec<Problem> {
    let mut problems = Vec::new();
    node::check(config, &mut problems);
    store::check(config, &mut problems);
    for (name, provider) in &config.providers {
        let used = config
            .agents
            .values()
            .any(|agent| provider_of(&agent.model) == name);
        provider::check(
            &KeyPath::from(["providers"]).join(name),
            provider,
            used,
            &mut problems,
        );
    }
    if config.agents.is_empty() {
        problems.push(
            Problem::value(KeyPath::from(["agents"]), "no agent is configured")
                .help("add a section [agents.NAME] with at least `model`"),
        );
    }
    for (name, agent) in &config.agents {
        agent::check(config, name, agent, rust_tools.get(name), &mut problems);
    }
    problems
}

/// The provider part of `provider/model`.
pub(crate) fn provider_of(model: &str) -> &str {
    model
        .split_once('/')
        .map_or(model, |(provider, _)| provider)
}

/// 1 to `chars_max` of `[A-Za-z0-9_-]`.
fn is_plain_name(text: &str, chars_max: usize) -> bool {
    !text.is_empty()
        && text.len() <= chars_max
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// A secret that must be there when the node starts.
fn readable(path: &KeyPath, secret: &Secret, problems: &mut Vec<Problem>) {
    if let Err(error) = secret.read() {
        problems.push(
            Problem::value(path.clone(), format!("`{path}`: {error}")).help(match secret {
                Secret::Env(name) => format!("set it: export {name}=..."),
                Secret::File(_) => "write the secret into the file".to_owned(),
            }),
        );
    }
}

/// A text that may hold a secret's place: if it does, it must be readable; if its name says that it
/// is a secret, it must.
fn text_or_secret(path: &KeyPath, text: &str, problems: &mut Vec<Problem>) {
    if let Ok(secret) = text.parse::<Secret>() {
        readable(path, &secret, problems);
        return;
    }
    if names_secret(path.last()) {
        let title = format!("`{path}`: a secret is never written into the configuration");
        problems.push(
            Problem::value(path.clone(), title)
                .label("looks like a secret")
                .help(format!("use {}", crate::config::secret::SECRET_RULE)),
        );
    }
}

fn http_url(path: &KeyPath, text: &str, problems: &mut Vec<Problem>) {
    let valid = reqwest::Url::parse(text)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !valid {
        let title = format!("`{path}`: expected an address that starts with http:// or https://");
        problems.push(Problem::value(path.clone(), title).label("no such address"));
    }
}
