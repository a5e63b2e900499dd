//! `[[agents.NAME.tools]]`: what an agent can do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::config::duration::Duration;

/// A tool. It has exactly one of `http`, `command`, `agent` and `client = true`, or `remote = true`, alone or
/// with `http` or `command`, or is a `provider`'s and run there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolOptions {
    /// 1 to 64 of [A-Za-z0-9_-], unique in its agent.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// What happens when a crash cuts a call off.
    #[serde(default)]
    pub replay: ReplayKind,
    /// The tool can be asked whether a call happened. Only with replay = "never".
    #[serde(default)]
    pub check: bool,
    /// What happens with a call when nobody can tell whether it happened. Only with replay =
    /// "never".
    #[serde(default)]
    pub in_doubt: InDoubtKind,
    /// Who must agree before a call runs.
    #[serde(default)]
    pub approval: ApprovalKind,
    /// How long an approval may wait before it counts as denied. Default: for ever.
    #[serde(default)]
    pub approval_expires_after: Option<Duration>,
    /// No other call of the session runs beside it.
    #[serde(default)]
    pub exclusive: bool,
    /// From the start of an attempt until its outcome must be there. Default: 10 minutes, of an
    /// `agent` a day.
    #[serde(default)]
    pub deadline: Option<Duration>,
    /// Attempts of a `safe` or `keyed` call. Default: 5.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub attempts_max: Option<u32>,
    /// Calls that run at the same time on this node, over all sessions.
    #[serde(default = "concurrency_max")]
    #[schemars(range(min = 1))]
    pub concurrency_max: u32,
    /// JSON Schema 2020-12 of the input; each input is checked before the tool runs.
    #[serde(default = "any_object")]
    pub input_schema: Map<String, Value>,
    /// JSON Schema 2020-12 of a JSON result.
    #[serde(default)]
    pub output_schema: Option<Map<String, Value>>,
    /// It is an HTTP endpoint.
    #[serde(default)]
    pub http: Option<HttpOptions>,
    /// It is a program.
    #[serde(default)]
    pub command: Option<CommandOptions>,
    /// It is this agent of the configuration: each call is a session of its own, which is asked
    /// `message` or, with an input schema of yours, all of the input as JSON. It is never asked twice.
    #[serde(default)]
    pub agent: Option<String>,
    /// The client runs it and sends the result.
    #[serde(default)]
    pub client: bool,
    /// Its calls are jobs in the tool queue, which outlive the node that asked. With `http` or
    /// `command` the nodes with the role `worker` run them; alone, workers of your own do. Only with
    /// store.kind = "nats".
    #[serde(default)]
    pub remote: bool,
    /// It is this tool of the model's provider, as `PROVIDER.TYPE`. One that the provider runs, such
    /// as `anthropic.web_search_20250305` or `openai.web_search`, has no `http` or `command`; one
    /// that it only defines, such as `anthropic.bash_20250124`, has one.
    #[serde(default)]
    #[schemars(
        regex(pattern = "^(anthropic|openai)\\..+$"),
        title = "text of the form \"provider.type\""
    )]
    pub provider: Option<String>,
    /// The provider's own settings of its tool.
    #[serde(default)]
    pub provider_options: Map<String, Value>,
}

impl ToolOptions {
    /// Whether its calls are processes of the node that owns the session.
    pub fn runs_as_child(&self) -> bool {
        self.command.is_some() && !self.remote
    }
}

/// May a call be repeated after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayKind {
    /// It is run again.
    Safe,
    /// It is run again under the same key; the tool dedupes by it, also while the first runs.
    Keyed,
    /// It is not run again.
    #[default]
    Never,
}

/// What happens with a call in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InDoubtKind {
    /// The model is told that it may or may not have happened.
    #[default]
    TellModel,
    /// The turn waits for an operator or a late answer.
    Wait,
}

/// Who must agree before a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalKind {
    /// Nobody.
    #[default]
    NotApplicable,
    /// Agreed beforehand.
    Approved,
    /// A person, for each call.
    UserApproval,
    /// It never runs.
    Denied,
}

/// A tool that is an HTTP endpoint: it gets a POST with the input as JSON body and the call's key as
/// `Idempotency-Key`. One with a check refuses, once that said `not_done`, requests of the key whose
/// `Steadfast-Fence`, a text, does not sort above that of the check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpOptions {
    /// Where it is; its check is at this address with `/check` added.
    pub url: String,
    /// For one request with its answer. Default: the tool's deadline.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// More request headers; a value may be `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A tool that is a program: the input comes as JSON on its standard input, the result goes to its
/// standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandOptions {
    /// The program, by name or path. No shell is involved.
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables that it is given; a value may be `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of the node's own variables that it is given too, if they are set.
    #[serde(default)]
    pub env_passed: Vec<String>,
    /// Its working directory. Default: that of the node.
    #[serde(default)]
    pub directory: Option<PathBuf>,
}

fn concurrency_max() -> u32 {
    64
}

pub(crate) fn any_object() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object"))])
}
