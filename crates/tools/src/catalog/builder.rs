//! Fills a catalog and refuses at start-up what could not work later.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use steadfast_core::input::{InDoubtPolicy, Place, ReplayRule};
use thiserror::Error;

use crate::catalog::finish::{Finish, FinishedWorker};
use crate::catalog::{Catalog, Tool, ToolSource, source};
use crate::definition::{Runner, ToolDefinition};
use crate::function::{BlockingWorker, FunctionWorker};
use crate::schema::{Schema, SchemaError};
use crate::spec::{Approval, ToolKind, ToolSpec};
use crate::worker::ToolWorker;

/// Why a catalog cannot be built: the agent is refused at start-up.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// The name breaks the rule.
    #[error("{tool:?} is not a tool name: 1 to 64 characters of [A-Za-z0-9_-]")]
    Name {
        /// The name.
        tool: String,
    },
    /// Two tools have one name.
    #[error("two tools are named {tool:?}: rename one of them")]
    Clash {
        /// The name.
        tool: String,
    },
    /// A tool has a name that is kept for the tools of a source.
    #[error(
        "tool {tool:?} is named like those of the MCP server {source_name:?}: rename one of them"
    )]
    OfSource {
        /// The name.
        tool: String,
        /// The source.
        source_name: String,
    },
    /// A source's name does not do, or is taken.
    #[error(
        "{name:?} is not the name of an MCP server: 1 to 32 characters of [A-Za-z0-9_-], without \
         \"__\", and not that of another"
    )]
    SourceName {
        /// The name.
        name: String,
    },
    /// Its input schema cannot be used.
    #[error("the input schema of tool {tool:?} cannot be used")]
    InputSchema {
        /// The tool.
        tool: String,
        /// Why.
        source: SchemaError,
    },
    /// Its input schema is not of an object.
    #[error(
        "the input schema of tool {tool:?} must say type \"object\": models send named arguments"
    )]
    InputNotObject {
        /// The tool.
        tool: String,
    },
    /// Its output schema cannot be used.
    #[error("the output schema of tool {tool:?} cannot be used")]
    OutputSchema {
        /// The tool.
        tool: String,
        /// Why.
        source: SchemaError,
    },
    /// What its specification says does not go together.
    #[error("tool {tool:?}: {conflict}")]
    Conflict {
        /// The tool.
        tool: String,
        /// What does not go together, and what to do.
        conflict: &'static str,
    },
}

/// A catalog that is being filled.
#[derive(Default)]
#[must_use]
pub struct CatalogBuilder {
    definitions: Vec<ToolDefinition>,
    sources: Vec<Arc<dyn ToolSource>>,
}

impl CatalogBuilder {
    /// Adds a tool.
    pub fn with(mut self, tool: ToolDefinition) -> Self {
        self.definitions.push(tool);
        self
    }

    /// Adds tools.
    pub fn with_all(mut self, tools: impl IntoIterator<Item = ToolDefinition>) -> Self {
        self.definitions.extend(tools);
        self
    }

    /// Adds a tool that a worker runs.
    pub fn tool(self, spec: ToolSpec, worker: Arc<dyn ToolWorker>) -> Self {
        self.with(ToolDefinition::with_worker(spec, worker))
    }

    /// Adds tools that come and go.
    pub fn with_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.sources.push(source);
        self
    }

    /// The catalog, if all its tools are sound.
    pub fn build(self) -> Result<Catalog, CatalogError> {
        let mut catalog = Catalog {
            tools: Vec::with_capacity(self.definitions.len()),
            by_name: BTreeMap::new(),
            sources: Vec::with_capacity(self.sources.len()),
        };
        for source in self.sources {
            let name = source.name();
            let taken = catalog.sources.iter().any(|other| other.name() == name);
            if taken || !source::is_name(name) {
                let name = name.to_owned();
                return Err(CatalogError::SourceName { name });
            }
            catalog.sources.push(source);
        }
        for definition in self.definitions {
            let name = definition.spec.name.clone();
            let tool = sound(definition)?;
            if let Some(source) = catalog.source_of(&name) {
                return Err(CatalogError::OfSource {
                    tool: name,
                    source_name: source.name().to_owned(),
                });
            }
            if catalog
                .by_name
                .insert(name.clone(), catalog.tools.len())
                .is_some()
            {
                return Err(CatalogError::Clash { tool: name });
            }
            catalog.tools.push(Arc::new(tool));
        }
        Ok(catalog)
    }
}

/// A tool whose specification was checked, with its schemas compiled.
pub(crate) fn sound(definition: ToolDefinition) -> Result<Tool, CatalogError> {
    let ToolDefinition {
        mut spec,
        attempts_max,
        runner,
        policy,
        model_view,
        check,
        line,
    } = definition;
    if !is_name(&spec.name) {
        return Err(CatalogError::Name { tool: spec.name });
    }
    spec.attempts_max = attempts_max.unwrap_or(ToolSpec::attempts_max_of(spec.replay));
    if let Some(conflict) = conflict(&spec, &runner) {
        return Err(CatalogError::Conflict {
            tool: spec.name,
            conflict,
        });
    }
    let input = match Schema::compile(&spec.input_schema) {
        Ok(schema) => schema,
        Err(source) => {
            return Err(CatalogError::InputSchema {
                tool: spec.name,
                source,
            });
        }
    };
    if spec.input_schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(CatalogError::InputNotObject { tool: spec.name });
    }
    let output = match spec.output_schema.as_ref().map(Schema::compile).transpose() {
        Ok(schema) => schema,
        Err(source) => {
            return Err(CatalogError::OutputSchema {
                tool: spec.name,
                source,
            });
        }
    };
    let inner: Option<Arc<dyn ToolWorker>> = match runner {
        Runner::Function(handler) => Some(Arc::new(FunctionWorker::new(handler, spec.replay))),
        Runner::Blocking(handler) => Some(Arc::new(BlockingWorker::new(handler, spec.replay))),
        Runner::Worker(worker) => Some(worker),
        Runner::Client | Runner::Remote | Runner::Provider => None,
    };
    let finish = Arc::new(Finish {
        rule: spec.replay,
        output,
        model_view,
    });
    let worker = inner.map(|inner| -> Arc<dyn ToolWorker> {
        Arc::new(FinishedWorker {
            inner,
            finish: Arc::clone(&finish),
            check,
        })
    });
    Ok(Tool {
        spec,
        worker,
        policy,
        line: line.unwrap_or_default(),
        input,
        finish,
    })
}

fn is_name(name: &str) -> bool {
    const NAME_BYTES_MAX: usize = 64;
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// What in a specification does not go together, and what to do.
fn conflict(spec: &ToolSpec, runner: &Runner) -> Option<&'static str> {
    let never = spec.replay == ReplayRule::Never;
    let client = matches!(runner, Runner::Client);
    let checks = [
        (
            client != (spec.place == Place::Client)
                || client != (spec.kind == ToolKind::ClientSide),
            "a client-side tool has the kind client_side and the place client, and no other tool has",
        ),
        (
            matches!(runner, Runner::Remote) && spec.place != Place::Remote,
            "nothing in this process runs it, so its place is remote",
        ),
        (
            spec.check && !never,
            "a check is only asked of a tool with the rule never: drop the check or change the rule",
        ),
        (
            spec.check && client,
            "a client-side tool cannot be checked: the client sends its result when it has one",
        ),
        (
            spec.in_doubt != InDoubtPolicy::default() && !never,
            "only a call with the rule never is ever in doubt: drop in_doubt or change the rule",
        ),
        (
            never && spec.attempts_max != 1,
            "a tool with the rule never has one attempt: drop attempts_max or change the rule",
        ),
        (spec.attempts_max == 0, "attempts_max must be at least 1"),
        (
            spec.concurrency_max == 0,
            "concurrency_max must be at least 1",
        ),
        (spec.deadline_ms == 0, "the deadline must be at least 1 ms"),
        (
            spec.exclusive && client,
            "a client-side tool runs elsewhere and cannot be exclusive",
        ),
        (
            spec.approval_expires_ms == Some(0),
            "an approval must be given more than no time: drop the expiry or raise it",
        ),
    ];
    checks
        .into_iter()
        .find_map(|(wrong, conflict)| wrong.then_some(conflict))
        .or_else(|| provider_conflict(spec, matches!(runner, Runner::Provider)))
}

/// The same of what concerns tools of a model provider.
fn provider_conflict(spec: &ToolSpec, by_provider: bool) -> Option<&'static str> {
    let of_provider = matches!(
        spec.kind,
        ToolKind::ProviderDefined | ToolKind::ProviderExecuted
    );
    let checks = [
        (
            of_provider != spec.provider.is_some(),
            "a tool of a model provider names the provider's type, and no other tool does",
        ),
        (
            by_provider != (spec.kind == ToolKind::ProviderExecuted),
            "a tool that the provider runs has the kind provider_executed, and no other tool has",
        ),
        (
            by_provider
                && (spec.approval != Approval::NotApplicable || spec.check || spec.exclusive),
            "the provider runs it within its reply: nobody can be asked, and nothing be checked",
        ),
        (
            spec.provider
                .as_ref()
                .is_some_and(|tool| !tool.id.contains('.')),
            "a provider's type is written PROVIDER.TYPE, for example anthropic.bash_20250124",
        ),
    ];
    checks
        .into_iter()
        .find_map(|(wrong, conflict)| wrong.then_some(conflict))
}
