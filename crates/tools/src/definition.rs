//! A tool on its way into a catalog: its specification, what runs it, what decides over it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steadfast_core::content::ToolOutput;
use steadfast_core::id::AgentName;
use steadfast_core::input::{CheckAnswer, InDoubtPolicy, Place, ReplayRule};

use crate::approval::ApprovalPolicy;
use crate::catalog::Line;
use crate::function::{BlockingHandler, Handler, ToolCall};
use crate::spec::{Approval, ProviderType, ToolKind, ToolSpec};
use crate::worker::ToolWorker;

/// What the model sees of an output.
pub(crate) type ModelView = Arc<dyn Fn(&ToolOutput) -> ToolOutput + Send + Sync>;

/// A check written in Rust.
pub(crate) type CheckHandler =
    Arc<dyn Fn(Value, ToolCall) -> BoxFuture<'static, CheckAnswer> + Send + Sync>;

/// What runs a tool.
#[derive(Clone)]
pub(crate) enum Runner {
    Function(Handler),
    Blocking(BlockingHandler),
    Worker(Arc<dyn ToolWorker>),
    /// The client does.
    Client,
    /// A worker elsewhere does, and nothing in this process can.
    Remote,
    /// The model's provider does, within its reply.
    Provider,
}

/// A tool before it stands in a catalog. Unless told otherwise it must not be repeated, needs
/// nobody's agreement and has ten minutes.
#[derive(Clone)]
pub struct ToolDefinition {
    pub(crate) spec: ToolSpec,
    /// `None`: the default of the rule.
    pub(crate) attempts_max: Option<u32>,
    pub(crate) runner: Runner,
    pub(crate) policy: Option<ApprovalPolicy>,
    pub(crate) model_view: Option<ModelView>,
    pub(crate) check: Option<CheckHandler>,
    /// `None`: one of its own.
    pub(crate) line: Option<Line>,
}

impl ToolDefinition {
    pub(crate) fn new(spec: ToolSpec, runner: Runner) -> Self {
        Self {
            spec,
            attempts_max: None,
            runner,
            policy: None,
            model_view: None,
            check: None,
            line: None,
        }
    }

    /// A tool that a worker runs, with everything said in the specification.
    pub fn with_worker(spec: ToolSpec, worker: Arc<dyn ToolWorker>) -> Self {
        let attempts_max = Some(spec.attempts_max);
        Self {
            attempts_max,
            ..Self::new(spec, Runner::Worker(worker))
        }
    }

    /// A tool that the client runs: the turn waits until the result is sent.
    pub fn client_side(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        let mut spec = ToolSpec::new(name, description, input_schema);
        spec.kind = ToolKind::ClientSide;
        spec.place = Place::Client;
        Self::new(spec, Runner::Client)
    }

    /// A tool that workers elsewhere run: its calls are jobs in the tool queue.
    pub fn remote(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        let spec = ToolSpec::new(name, description, input_schema);
        Self::new(spec, Runner::Remote).remotely()
    }

    /// Another agent as a tool: each call is a session of its own, which outlives the node, and whose
    /// turn's answer is the result. It is asked again under the same name after a crash, and ended
    /// with the call. Default deadline: a day.
    pub fn agent(
        name: impl Into<String>,
        description: impl Into<String>,
        agent: AgentName,
    ) -> Self {
        const DEADLINE_MS: u64 = 24 * 60 * 60 * 1_000;
        let input_schema = json!({
            "type": "object",
            "properties": {
                "message": {
                    "type": "string",
                    "description": "What it is asked. It knows nothing else of this conversation.",
                },
            },
            "required": ["message"],
            "additionalProperties": false,
        });
        let mut spec = ToolSpec::new(name, description, input_schema);
        spec.agent = Some(agent);
        spec.deadline_ms = DEADLINE_MS;
        let tool = Self::new(spec, Runner::Remote).remotely();
        tool.replay(ReplayRule::Keyed).attempts_max(1)
    }

    /// JSON Schema 2020-12 of its input.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.spec.input_schema = schema;
        self
    }

    /// Its calls are jobs in the tool queue, and outlive the node that asked for them; nodes with
    /// the worker role run them.
    #[must_use]
    pub fn remotely(mut self) -> Self {
        self.spec.place = Place::Remote;
        self
    }

    /// Asks whether a call happened, of a tool whose worker answers checks itself.
    #[must_use]
    pub fn checked(mut self) -> Self {
        self.spec.check = true;
        self
    }

    /// A tool that the model's provider defines and runs itself, such as its web search: what it
    /// did comes with the reply, is recorded and goes back with the next request.
    pub fn provider_executed(
        name: impl Into<String>,
        description: impl Into<String>,
        provider: ProviderType,
    ) -> Self {
        let mut spec = ToolSpec::new(name, description, json!({ "type": "object" }));
        spec.kind = ToolKind::ProviderExecuted;
        spec.provider = Some(provider);
        Self::new(spec, Runner::Provider)
    }

    /// It has the name and the shape of a tool that the model's provider defines, such as its bash
    /// tool: the model is told the provider's type in place of description and schema, and calls
    /// run here.
    #[must_use]
    pub fn provider_defined(mut self, provider: ProviderType) -> Self {
        self.spec.kind = ToolKind::ProviderDefined;
        self.spec.provider = Some(provider);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// It may run again: it changes nothing, or what it does twice is as done once.
    #[must_use]
    pub fn safe(self) -> Self {
        self.replay(ReplayRule::Safe)
    }

    /// It may run again under the same key, by which it dedupes, also while the first still runs.
    #[must_use]
    pub fn keyed(self) -> Self {
        self.replay(ReplayRule::Keyed)
    }

    /// What may be done with a call whose outcome was lost. Default: `never`.
    #[must_use]
    pub fn replay(mut self, rule: ReplayRule) -> Self {
        self.spec.replay = rule;
        self
    }

    /// Asks whether a call happened, of a tool that must not be repeated. The closure is given the
    /// call's input and answers from what the outside knows under [`ToolCall::key`]; once it
    /// answered [`CheckAnswer::NotDone`], the tool must refuse that key unless the attempt's
    /// [`ToolCall::fence`] is above that of the check: an attempt that seemed lost may still come.
    /// It refuses with [`ToolFailure::unknown`](crate::function::ToolFailure::unknown).
    #[must_use]
    pub fn check<I, F, Fut>(mut self, check: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        F: Fn(I, ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = CheckAnswer> + Send + 'static,
    {
        self.spec.check = true;
        self.check = Some(Arc::new(move |input, call| {
            match serde_json::from_value(input) {
                Ok(input) => check(input, call).boxed(),
                Err(error) => {
                    tracing::warn!(%error, "a recorded input no longer fits its tool's type");
                    std::future::ready(CheckAnswer::Unknown).boxed()
                }
            }
        }));
        self
    }

    /// What happens with a call in doubt. Default: the model is told.
    #[must_use]
    pub fn in_doubt(mut self, policy: InDoubtPolicy) -> Self {
        self.spec.in_doubt = policy;
        self
    }

    /// Who must agree to each call.
    #[must_use]
    pub fn approval(mut self, approval: Approval) -> Self {
        self.spec.approval = approval;
        self
    }

    /// Who must agree, decided over the input.
    #[must_use]
    pub fn approval_policy(
        mut self,
        decide: impl Fn(&Value) -> Approval + Send + Sync + 'static,
    ) -> Self {
        self.policy = Some(ApprovalPolicy::new(decide));
        self
    }

    /// How long a person may take to agree. Default: any time.
    #[must_use]
    pub fn approval_expires(mut self, after: Duration) -> Self {
        self.spec.approval_expires_ms = Some(whole_ms(after));
        self
    }

    /// No other call of the session runs beside it.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.spec.exclusive = true;
        self
    }

    /// How long one attempt may take. Default: ten minutes.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.spec.deadline_ms = whole_ms(deadline);
        self
    }

    /// Attempts of a call that may be repeated. Default: 5.
    #[must_use]
    pub fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = Some(attempts_max);
        self
    }

    /// Calls that run at the same time on one node, over all sessions. Default: 64.
    #[must_use]
    pub fn concurrency_max(mut self, concurrency_max: u32) -> Self {
        self.spec.concurrency_max = concurrency_max;
        self
    }

    /// JSON Schema 2020-12 of its JSON result. A result that does not fit is an error of a `safe`
    /// tool; of others, which did run, it is kept and told with a note.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.spec.output_schema = Some(schema);
        self
    }

    /// What the model sees of a result that is no error; the client sees the result itself.
    #[must_use]
    pub fn to_model_output(
        mut self,
        view: impl Fn(&ToolOutput) -> ToolOutput + Send + Sync + 'static,
    ) -> Self {
        self.model_view = Some(Arc::new(view));
        self
    }
}

impl fmt::Debug for ToolDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolDefinition")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
