//! `[agents.NAME]`: who answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_core::command::ToolChoice;
use steadfast_core::input::{Durability, Policy};
use steadfast_runtime::agent::Drive;

use crate::config::duration::Duration;
use crate::config::mcp::McpOptions;
use crate::config::tool::ToolOptions;

/// An agent: a model with instructions, tools and limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentOptions {
    /// Who runs the loop of model and tool calls.
    #[serde(default)]
    pub harness: HarnessKind,
    /// `PROVIDER/MODEL`: a section of `[providers]`, and that provider's own name of the model.
    #[schemars(
        regex(pattern = "^[^/]+/.+$"),
        title = "text of the form \"provider/model\""
    )]
    pub model: String,
    /// What the model is told before all else.
    #[serde(default)]
    pub instructions: String,
    /// What may start before it is in the log.
    #[serde(default)]
    pub durability: DurabilityKind,
    /// Which node runs its turns.
    #[serde(default)]
    pub drive: DriveKind,
    /// Model calls in one turn, at most.
    #[serde(default = "max_steps")]
    #[schemars(range(min = 1))]
    pub max_steps: u32,
    /// Attempts of one model call, at most.
    #[serde(default = "model_attempts_max")]
    #[schemars(range(min = 1))]
    pub model_attempts_max: u32,
    /// Messages that may wait for their turn; one more is answered with 429.
    #[serde(default = "queue_max")]
    #[schemars(range(min = 1))]
    pub queue_max: u32,
    /// Output tokens of one model call, at most. Default: the provider's.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub output_tokens_max: Option<u64>,
    /// More fields of the provider's request, passed on as they are.
    #[serde(default)]
    pub model_options: Map<String, Value>,
    /// Estimated tokens of the history above which it is summarised. Default: only on request, or
    /// when it no longer fits the model's window.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub compact_at_tokens: Option<u64>,
    /// What a turn or a session may cost; none by default.
    #[serde(default)]
    pub budget: BudgetOptions,
    /// Only these tools are offered to the model. Not together with `inactive_tools`.
    #[serde(default)]
    pub active_tools: Option<Vec<String>>,
    /// These tools are not offered to the model.
    #[serde(default)]
    pub inactive_tools: Option<Vec<String>>,
    /// Whether a turn calls tools: `auto`, `none`, `required` or `{ tool = "NAME" }`. The last two
    /// hold until the turn has called one.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// What holds in single steps of a turn beside that.
    #[serde(default)]
    pub steps: Vec<StepOptions>,
    /// A step in which one of these tools gave a result that is no error is the turn's last.
    #[serde(default)]
    pub stop_after_tools: Vec<String>,
    /// JSON Schema that the answer of each turn must fit. One that does not is asked for again, twice
    /// at most; then the turn fails.
    #[serde(default)]
    pub output_schema: Option<Map<String, Value>>,
    /// What it can do.
    #[serde(default)]
    pub tools: Vec<ToolOptions>,
    /// MCP servers whose tools it has, by name.
    #[serde(default)]
    pub mcp: BTreeMap<String, McpOptions>,
}

/// What holds in some steps of a turn. The first rule that says something of a step's choice decides
/// it; each rule narrows the tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepOptions {
    /// The first step that it holds in; a turn's first model call is 1.
    #[schemars(range(min = 1))]
    pub first: u32,
    /// The last step that it holds in. Default: it holds in all that follow.
    #[serde(default)]
    pub last: Option<u32>,
    /// Only these tools are offered. Not together with `inactive_tools`.
    #[serde(default)]
    pub active_tools: Option<Vec<String>>,
    /// These tools are not offered.
    #[serde(default)]
    pub inactive_tools: Option<Vec<String>>,
    /// Whether the step calls tools, whatever the turn did before.
    #[serde(default)]
    pub tool_choice: Option<ToolChoice>,
}

/// Who runs the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HarnessKind {
    /// Steadfast's own loop over a model provider.
    #[default]
    Native,
}

/// What may start before it is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityKind {
    /// Model calls and `safe` tool calls start while the record that asks for them is being
    /// written; all other calls wait for it.
    #[default]
    On,
    /// Every call waits for its record.
    Strict,
}

/// Which node runs the turns of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriveKind {
    /// The node that took the request. One without the role `driver` hands a turn over after
    /// `node.handover_after`, and takes no agent with tools or MCP servers that are commands.
    #[default]
    Request,
    /// A node with the role `driver`, by the queue, from the start.
    Queue,
}

/// What a turn or a session may cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetOptions {
    /// Tool calls of one turn.
    pub turn_calls_max: Option<u64>,
    /// Tokens of one turn.
    pub turn_tokens_max: Option<u64>,
    /// Tokens of a session.
    pub session_tokens_max: Option<u64>,
    /// Duration of one turn.
    pub turn_wall_max: Option<Duration>,
}

impl AgentOptions {
    /// An agent over this model with the default of every other option.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            harness: HarnessKind::default(),
            model: model.into(),
            instructions: String::new(),
            durability: DurabilityKind::default(),
            drive: DriveKind::default(),
            max_steps: max_steps(),
            model_attempts_max: model_attempts_max(),
            queue_max: queue_max(),
            output_tokens_max: None,
            model_options: Map::new(),
            compact_at_tokens: None,
            budget: BudgetOptions::default(),
            active_tools: None,
            inactive_tools: None,
            tool_choice: ToolChoice::default(),
            steps: Vec::new(),
            stop_after_tools: Vec::new(),
            output_schema: None,
            tools: Vec::new(),
            mcp: BTreeMap::new(),
        }
    }

    /// Who runs its turns, as the runtime has it.
    pub fn drive(&self) -> Drive {
        match self.drive {
            DriveKind::Queue => Drive::Queue,
            // A process would be cut off by a hand-over.
            DriveKind::Request if self.has_processes() => Drive::Driver,
            DriveKind::Request => Drive::Request,
        }
    }

    /// Whether tools of it are processes of the node.
    fn has_processes(&self) -> bool {
        self.tools.iter().any(ToolOptions::runs_as_child)
            || self.mcp.values().any(|server| server.command.is_some())
    }

    /// The limits as the session's state machine has them.
    pub fn policy(&self) -> Policy {
        Policy {
            durability: match self.durability {
                DurabilityKind::On => Durability::On,
                DurabilityKind::Strict => Durability::Strict,
            },
            steps_max: self.max_steps,
            model_attempts_max: self.model_attempts_max,
            queue_max: self.queue_max,
            turn_calls_max: self.budget.turn_calls_max,
            turn_tokens_max: self.budget.turn_tokens_max,
            session_tokens_max: self.budget.session_tokens_max,
            turn_wall_ms_max: self.budget.turn_wall_max.map(Duration::as_ms),
            compact_at_tokens: self.compact_at_tokens,
            stop_after_tools: self.stop_after_tools.clone(),
            ..Policy::default()
        }
    }
}

fn max_steps() -> u32 {
    100
}

fn model_attempts_max() -> u32 {
    5
}

fn queue_max() -> u32 {
    64
}
