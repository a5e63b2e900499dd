//! An agent as the runtime runs it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_core::id::AgentName;
use steadfast_core::input::Policy;
use steadfast_core::session::Turn;
use steadfast_harness::native::ModelSettings;
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::request::{ProviderTool, ToolDeclaration};
use steadfast_tools::catalog::{Catalog, Tool};
use steadfast_tools::filter::ToolFilter;

/// A configured agent.
#[derive(Clone)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// `provider/model` as configured, for display.
    pub model: String,
    /// Name of the provider's section, for display.
    pub provider_name: String,
    /// Who is asked.
    pub provider: Arc<dyn ModelProvider>,
    /// How it is asked; [`Agent::offering`] fills in the tools.
    pub settings: ModelSettings,
    /// Limits.
    pub policy: Policy,
    /// Its tools.
    pub catalog: Arc<Catalog>,
    /// Which of them are offered, unless a message narrows it.
    pub filter: ToolFilter,
    /// Who runs its turns.
    pub drive: Drive,
}

/// Who runs an agent's turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Drive {
    /// The node that took the request, if it may keep what the agent needs.
    #[default]
    Request,
    /// The same, if that node drives; otherwise a node that does: the agent has tools that live
    /// with it, and handing them over would cut them off.
    Driver,
    /// A node that drives, by the queue, from the start.
    Queue,
}

/// All agents of a node, by name.
pub type Agents = Arc<BTreeMap<AgentName, Arc<Agent>>>;

impl Agent {
    /// Whether an idle session of this agent goes through the queue, on a node that drives or not.
    pub fn is_for_the_queue(&self, drives: bool) -> bool {
        match self.drive {
            Drive::Request => false,
            Drive::Driver => !drives,
            Drive::Queue => true,
        }
    }

    /// The agent with those tools in its settings that its filter offers.
    #[must_use]
    pub fn offering(mut self) -> Self {
        self.settings.tools = Arc::new(declarations(&self.catalog, &self.filter));
        self
    }

    /// Which tools are active in a turn: a message narrows what its agent offers.
    pub fn turn_filter(&self, turn: &Turn) -> Cow<'_, ToolFilter> {
        let options = &turn.options;
        if options.active_tools.is_none() && options.inactive_tools.is_none() {
            return Cow::Borrowed(&self.filter);
        }
        let message = ToolFilter::new(
            options.active_tools.as_deref(),
            options.inactive_tools.as_deref(),
        );
        Cow::Owned(self.filter.and(&message))
    }

    /// How the model is asked in a turn.
    pub fn turn_settings(&self, turn: &Turn) -> Cow<'_, ModelSettings> {
        match self.turn_filter(turn) {
            Cow::Borrowed(_) => Cow::Borrowed(&self.settings),
            Cow::Owned(filter) => Cow::Owned(ModelSettings {
                tools: Arc::new(declarations(&self.catalog, &filter)),
                ..self.settings.clone()
            }),
        }
    }
}

fn declarations(catalog: &Catalog, filter: &ToolFilter) -> Vec<ToolDeclaration> {
    let declare = |tool: &Arc<Tool>| ToolDeclaration {
        name: tool.spec.name.clone(),
        description: tool.spec.description.clone(),
        input_schema: tool.spec.input_schema.clone(),
        provider: tool.spec.provider.as_ref().map(|provider| ProviderTool {
            id: provider.id.clone(),
            options: provider.options.clone(),
        }),
    };
    catalog.offered(filter).map(declare).collect()
}
