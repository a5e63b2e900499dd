//! A node as a library: configuration, agents and tools in; a running node out.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use steadfast_store::Stores;
use steadfast_tools::definition::ToolDefinition;

use crate::config::Config;
use crate::config::agent::AgentOptions;
use crate::config::provider::{ProviderKind, ProviderOptions};
use crate::running::RunningNode;
use crate::start_error::StartError;
use crate::wiring;

/// A node before it runs.
///
/// What is not said has the defaults of `config/node.toml`: a store in `./steadfast-data`, the HTTP
/// API on `127.0.0.1:7070`, and a provider `scripted` that needs no network.
pub struct NodeBuilder {
    pub(crate) config: Config,
    pub(crate) tools: BTreeMap<String, Vec<ToolDefinition>>,
    pub(crate) around_stores: Vec<AroundStores>,
}

/// Puts something between the runtime and the store's ports.
pub(crate) type AroundStores = Box<dyn FnOnce(Stores) -> Stores + Send>;

/// Front door of the library.
#[derive(Debug, Clone, Copy)]
pub struct Node;

impl Node {
    /// A node with defaults.
    pub fn builder() -> NodeBuilder {
        let mut config = Config::default();
        let scripted = ProviderOptions::new(ProviderKind::Scripted);
        config.providers.insert("scripted".to_owned(), scripted);
        Self::from_config(config)
    }

    /// A node as a configuration describes it.
    pub fn from_config(config: Config) -> NodeBuilder {
        NodeBuilder {
            config,
            tools: BTreeMap::new(),
            around_stores: Vec::new(),
        }
    }
}

impl NodeBuilder {
    /// Keeps sessions in this directory.
    #[must_use]
    pub fn store_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.store.path = path.into();
        self
    }

    /// Serves the HTTP API there; port 0 takes any free port.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.config.node.listen = address.to_string();
        self
    }

    /// Adds a model provider that agents name as `NAME/MODEL`.
    #[must_use]
    pub fn provider(mut self, name: impl Into<String>, provider: ProviderOptions) -> Self {
        self.config.providers.insert(name.into(), provider);
        self
    }

    /// Adds an agent.
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> Self {
        self.tools
            .entry(agent.name.clone())
            .or_default()
            .extend(agent.tools);
        self.config.agents.insert(agent.name, agent.options);
        self
    }

    /// Gives tools written in Rust to an agent of the configuration.
    #[must_use]
    pub fn tools(mut self, agent: &str, tools: impl IntoIterator<Item = ToolDefinition>) -> Self {
        self.tools
            .entry(agent.to_owned())
            .or_default()
            .extend(tools);
        self
    }

    /// Changes any option.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Puts layers of your own between the node and its store: they may watch, count, delay or cut
    /// off, and must keep what each port promises.
    #[must_use]
    pub fn around_stores(mut self, wrap: impl FnOnce(Stores) -> Stores + Send + 'static) -> Self {
        self.around_stores.push(Box::new(wrap));
        self
    }

    /// Starts it: opens the store, goes on with what was cut off, serves the API.
    pub async fn start(self) -> Result<RunningNode, StartError> {
        wiring::start(self).await
    }
}

/// An agent with tools written in Rust.
#[derive(Debug)]
pub struct Agent {
    name: String,
    options: AgentOptions,
    tools: Vec<ToolDefinition>,
}

impl Agent {
    /// An agent over a model, named as `PROVIDER/MODEL`.
    pub fn new(name: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            options: AgentOptions::new(model),
            tools: Vec::new(),
        }
    }

    /// What the model is told before all else.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.options.instructions = instructions.into();
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: ToolDefinition) -> Self {
        self.tools.push(tool);
        self
    }

    /// Changes any option.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut AgentOptions)) -> Self {
        change(&mut self.options);
        self
    }
}
