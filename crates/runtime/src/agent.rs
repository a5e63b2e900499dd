//! An agent as the runtime runs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use steadfast_core::id::AgentName;
use steadfast_core::input::Policy;
use steadfast_harness::provider::ModelProvider;

/// A configured agent.
#[derive(Clone)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// `provider/model` as configured, for display.
    pub model: String,
    /// The provider's own name of the model.
    pub model_name: String,
    /// Who is asked.
    pub provider: Arc<dyn ModelProvider>,
    /// Name of the provider's section, for display.
    pub provider_name: String,
    /// System instructions.
    pub instructions: String,
    /// Limits.
    pub policy: Policy,
    /// Output tokens of one model call, at most.
    pub output_tokens_max: Option<u64>,
    /// More options of the wire, merged into each request.
    pub model_options: Value,
}

/// All agents of a node, by name.
pub type Agents = Arc<BTreeMap<AgentName, Arc<Agent>>>;
