//! The specification of a tool, as the catalog keeps it and the API shows it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_core::id::AgentName;
use steadfast_core::input::{InDoubtPolicy, Place, ReplayRule};

/// What a tool is to the outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// 1 to 64 of `[A-Za-z0-9_-]`, unique in its agent.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema 2020-12 of the input; an object schema.
    pub input_schema: Value,
    /// JSON Schema 2020-12 of a JSON result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Who defines and who runs it.
    pub kind: ToolKind,
    /// Which of a model provider's tools it is; only of the two kinds that are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderType>,
    /// Which tool of which MCP server it is; only of those that are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpOrigin>,
    /// The agent that answers its calls, each in a session of its own; only of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Where it runs.
    pub place: Place,
    /// May a call be repeated.
    pub replay: ReplayRule,
    /// Whether it can be asked what happened; only of a `never` tool.
    pub check: bool,
    /// What happens with a call in doubt.
    pub in_doubt: InDoubtPolicy,
    /// Who must agree; a policy over the input takes its place when the tool has one.
    pub approval: Approval,
    /// How long a person may take to agree, in milliseconds; after that the call counts as denied.
    /// `None`: any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_expires_ms: Option<u64>,
    /// No other call of the session runs beside it.
    pub exclusive: bool,
    /// From the start of an attempt until its outcome, in milliseconds. Default 600,000.
    pub deadline_ms: u64,
    /// Attempts of a `safe` or `keyed` call. Default 5; 1 for `never`.
    pub attempts_max: u32,
    /// Calls that run at the same time on this node, over all sessions. Default 64.
    pub concurrency_max: u32,
}

impl ToolSpec {
    /// Default of [`ToolSpec::deadline_ms`].
    pub const DEADLINE_MS: u64 = 600_000;
    /// Default of [`ToolSpec::attempts_max`] of a tool that may be repeated.
    pub const ATTEMPTS_MAX: u32 = 5;
    /// Default of [`ToolSpec::concurrency_max`].
    pub const CONCURRENCY_MAX: u32 = 64;

    /// A function that runs here, must not be repeated and needs nobody's agreement.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema,
            output_schema: None,
            kind: ToolKind::Function,
            provider: None,
            mcp: None,
            agent: None,
            place: Place::Local,
            replay: ReplayRule::Never,
            check: false,
            in_doubt: InDoubtPolicy::TellModel,
            approval: Approval::NotApplicable,
            approval_expires_ms: None,
            exclusive: false,
            deadline_ms: Self::DEADLINE_MS,
            attempts_max: 1,
            concurrency_max: Self::CONCURRENCY_MAX,
        }
    }

    /// The default of [`ToolSpec::attempts_max`] for a rule.
    pub fn attempts_max_of(rule: ReplayRule) -> u32 {
        match rule {
            ReplayRule::Safe | ReplayRule::Keyed => Self::ATTEMPTS_MAX,
            ReplayRule::Never => 1,
        }
    }
}

/// A tool whose shape is a model provider's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderType {
    /// Provider and type, for example `anthropic.bash_20250124`.
    pub id: String,
    /// The provider's own settings of the tool, an object.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

/// Where a tool of an MCP server comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpOrigin {
    /// The server, as configured.
    pub server: String,
    /// The tool's name there.
    pub tool: String,
}

/// Who defines and who runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// We define and run it.
    Function,
    /// Its shape is known only at run time.
    Dynamic,
    /// The provider defines it, we run it.
    ProviderDefined,
    /// The provider defines and runs it.
    ProviderExecuted,
    /// The client runs it and sends the result.
    ClientSide,
}

/// Who must agree before a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    /// Nobody.
    #[default]
    NotApplicable,
    /// Agreed beforehand.
    Approved,
    /// A person, for each call.
    UserApproval,
    /// Nobody can: it never runs.
    Denied,
}
