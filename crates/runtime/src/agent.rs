//! An agent as the runtime runs it.

mod control;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_core::id::AgentName;
use steadfast_core::input::{Place, Policy};
use steadfast_core::session::Turn;
use steadfast_harness::native::ModelSettings;
use steadfast_harness::provider::ModelProvider;
use steadfast_harness::request::{ProviderTool, ToolDeclaration};
use steadfast_tools::catalog::{Catalog, Tool};
use steadfast_tools::filter::ToolFilter;
use steadfast_tools::worker::Executor;

pub(crate) use control::unfit;
pub use control::{AnswerSchema, LoopControl, StepRule};

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
    /// How its loop is steered.
    pub control: LoopControl,
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
    /// `asked`: what a message says about it.
    pub fn is_for_the_queue(&self, drives: bool, asked: Option<Drive>) -> bool {
        match asked.unwrap_or(self.drive) {
            Drive::Queue => true,
            // A message cannot give a node what it must not keep.
            Drive::Request | Drive::Driver => {
                !drives && (self.drive == Drive::Driver || self.runs_processes())
            }
        }
    }

    /// Whether calls of its tools are processes of the node that owns the session.
    fn runs_processes(&self) -> bool {
        let is_process = |tool: &Arc<Tool>| {
            let worker = tool.worker.as_ref();
            tool.spec.place == Place::Local
                && worker.is_some_and(|worker| worker.executor() == Executor::Command)
        };
        self.catalog.tools().iter().any(is_process)
    }

    /// The agent with those tools in its settings that its filter offers, and with what its loop
    /// asks of a model.
    #[must_use]
    pub fn offering(mut self) -> Self {
        self.settings.tools = Arc::new(declarations(&self.catalog, &self.filter));
        self.settings.tool_choice = self.control.tool_choice.clone();
        let answer = self.control.answer.as_ref();
        self.settings.output_schema = answer.map(|schema| Arc::clone(schema.source()));
        self
    }

    /// Which tools are active in the present step of a turn: a message, and then the rules of the
    /// step, narrow what the agent offers.
    pub fn turn_filter(&self, turn: &Turn) -> Cow<'_, ToolFilter> {
        let options = &turn.options;
        let mut filter = Cow::Borrowed(&self.filter);
        if options.active_tools.is_some() || options.inactive_tools.is_some() {
            let message = ToolFilter::new(
                options.active_tools.as_deref(),
                options.inactive_tools.as_deref(),
            );
            filter = Cow::Owned(filter.and(&message));
        }
        for rule in self.control.rules(turn) {
            if rule.filter != ToolFilter::default() {
                filter = Cow::Owned(filter.and(&rule.filter));
            }
        }
        filter
    }

    /// How the model is asked in the present step of a turn.
    pub fn turn_settings(&self, turn: &Turn) -> Cow<'_, ModelSettings> {
        let filter = self.turn_filter(turn);
        let tool_choice = self.control.choice(turn);
        let output_schema = turn.options.output_schema.as_ref();
        let fixed = self.catalog.sources().is_empty();
        if fixed
            && matches!(filter, Cow::Borrowed(_))
            && tool_choice == self.settings.tool_choice
            && output_schema.is_none()
        {
            return Cow::Borrowed(&self.settings);
        }
        let mut settings = self.settings.clone();
        if !fixed || matches!(filter, Cow::Owned(_)) {
            settings.tools = Arc::new(declarations(&self.catalog, &filter));
        }
        settings.tool_choice = tool_choice;
        if let Some(schema) = output_schema {
            settings.output_schema = Some(Arc::new(schema.clone()));
        }
        Cow::Owned(settings)
    }
}

fn declarations(catalog: &Catalog, filter: &ToolFilter) -> Vec<ToolDeclaration> {
    let declare = |tool: Arc<Tool>| ToolDeclaration {
        name: tool.spec.name.clone(),
        description: tool.spec.description.clone(),
        input_schema: tool.spec.input_schema.clone(),
        provider: tool.spec.provider.as_ref().map(|provider| ProviderTool {
            id: provider.id.clone(),
            options: provider.options.clone(),
        }),
    };
    catalog.offered(filter).into_iter().map(declare).collect()
}
