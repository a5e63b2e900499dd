//! Tools that are not known beforehand, and come and go while a node runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::catalog::Tool;

/// Between the name of a source and that of its tool.
pub(crate) const SEPARATOR: &str = "__";

/// Names of a source are short, so that its tools' names have room in the 64 characters.
const NAME_BYTES_MAX: usize = 32;

/// A server that says itself which tools it has. It is reached only while [`ToolSource::run`] runs.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Its name, which begins the names of its tools.
    fn name(&self) -> &str;

    /// What it has now.
    fn stock(&self) -> Arc<Stock>;

    /// Waits until its first attempt to be reached is over.
    async fn tried(&self);

    /// Waits until it is reached.
    async fn reached(&self);

    /// Keeps it reached until `stop`, over every fault of the other side. If this panics it may be
    /// run again.
    async fn run(&self, stop: CancellationToken);
}

/// What a source has at one moment.
#[derive(Debug, Clone)]
pub struct Stock {
    /// Whether it is reached.
    pub state: SourceState,
    /// Tools that it has and that cannot be offered.
    pub refused: Vec<Refused>,
    tools: BTreeMap<String, Arc<Tool>>,
}

/// A tool that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Its name at its source.
    pub tool: String,
    /// Why.
    pub reason: String,
}

/// Whether a source is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SourceState {
    /// It was not reached yet, and nobody knows whether it will be.
    Starting,
    /// It is reached.
    Up,
    /// It is not, and is tried again.
    Down {
        /// Why.
        reason: String,
    },
}

impl SourceState {
    /// In words for a model.
    pub fn of(&self, source: &str) -> String {
        match self {
            Self::Starting => format!("the MCP server {source:?} is still being reached"),
            Self::Up => format!("the MCP server {source:?} does not offer it"),
            Self::Down { reason } => {
                format!("the MCP server {source:?} cannot be reached: {reason}")
            }
        }
    }
}

impl Stock {
    /// Of a source that was not reached yet.
    pub fn starting() -> Self {
        Self {
            state: SourceState::Starting,
            refused: Vec::new(),
            tools: BTreeMap::new(),
        }
    }

    /// Of a source that has these tools.
    pub fn up(tools: impl IntoIterator<Item = Arc<Tool>>, refused: Vec<Refused>) -> Self {
        let tools = tools.into_iter();
        Self {
            state: SourceState::Up,
            refused,
            tools: tools.map(|tool| (tool.spec.name.clone(), tool)).collect(),
        }
    }

    /// Of a source that cannot be reached, with the tools that it had when it still was.
    pub fn down(reason: String, before: Option<&Self>) -> Self {
        Self {
            state: SourceState::Down { reason },
            ..before.map_or_else(Self::starting, Self::clone)
        }
    }

    /// Whether it has no tools because it cannot be reached.
    pub fn is_missing(&self) -> bool {
        self.state != SourceState::Up && self.tools.is_empty()
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    /// Its tools, by name.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }
}

pub(super) fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.contains(SEPARATOR)
        && !name.ends_with('_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
