//! The configuration: one struct for each section, whose comments are the reference.
//!
//! There is one loader, [`Config::load`]. Its sources, each replacing the one before key by key: a
//! TOML file, the files of `agents_dir`, environment variables `STEADFAST__SECTION__KEY`, and
//! `--set section.key=value`. Everything that is wrong is reported at once, with its place.

pub mod agent;
pub mod api;
mod check;
mod document;
pub mod duration;
mod key_path;
mod load;
pub mod mcp;
pub mod nats;
mod nearest;
pub mod node;
mod problem;
pub mod provider;
mod rules;
pub mod schema;
pub mod secret;
pub mod sessions;
pub mod store;
pub mod telemetry;
pub mod tool;
pub mod tools;
mod unavailable;
pub mod webhooks;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::agent::AgentOptions;
use crate::config::api::ApiOptions;
use crate::config::document::Document;
use crate::config::node::NodeOptions;
pub use crate::config::problem::ConfigError;
use crate::config::provider::ProviderOptions;
pub use crate::config::rules::RustTools;
use crate::config::sessions::SessionsOptions;
use crate::config::store::StoreOptions;
use crate::config::telemetry::TelemetryOptions;
use crate::config::tools::ToolsOptions;
use crate::config::webhooks::WebhookOptions;

/// The configuration of a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The process.
    pub node: NodeOptions,
    /// Where sessions are kept.
    pub store: StoreOptions,
    /// Sessions in memory.
    pub sessions: SessionsOptions,
    /// Tool calls at the same time.
    pub tools: ToolsOptions,
    /// Who may ask what, and how much.
    pub api: ApiOptions,
    /// Logs and traces.
    pub telemetry: TelemetryOptions,
    /// Who is told what becomes of turns.
    pub webhooks: Option<WebhookOptions>,
    /// Directory of agents: each `NAME.toml` in it is the content of a section `[agents.NAME]`.
    pub agents_dir: Option<PathBuf>,
    /// Who is asked for model replies, by name.
    pub providers: BTreeMap<String, ProviderOptions>,
    /// Who answers, by name.
    pub agents: BTreeMap<String, AgentOptions>,
}

/// What a configuration is made of, from weak to strong.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sources {
    /// A TOML text with the name to show for it.
    pub base: Option<(String, String)>,
    /// Environment variables; only those that start with `STEADFAST__` count.
    pub environment: Vec<(String, String)>,
    /// Arguments of the form `section.key=value`.
    pub set: Vec<String>,
}

impl Sources {
    /// A file, the process's environment, and arguments.
    pub fn of_file(path: &std::path::Path, set: &[String]) -> Result<Self, ConfigError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError::bare(
                &format!("configuration file `{shown}` could not be read: {error}"),
                "give its path with --config; `steadfast dev` needs none",
            )
        })?;
        Ok(Self::of_text(&shown, &text, set))
    }

    /// A text, the process's environment, and arguments.
    pub fn of_text(name: &str, text: &str, set: &[String]) -> Self {
        Self {
            base: Some((name.to_owned(), text.to_owned())),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            set: set.to_vec(),
        }
    }
}

impl Config {
    /// Loads, checks and completes a configuration.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        load::load(sources, &RustTools::new())
    }

    /// The same for a node whose agents have tools written in Rust, which the configuration may
    /// name too.
    pub fn load_with_tools(sources: &Sources, tools: &RustTools) -> Result<Self, ConfigError> {
        load::load(sources, tools)
    }

    /// Checks what was put together by hand: names, addresses, secrets, weak combinations.
    pub(crate) fn check(&self, rust_tools: &RustTools) -> Result<(), ConfigError> {
        let problems = rules::check(self, rust_tools);
        ConfigError::new(&Document::default(), &problems).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
