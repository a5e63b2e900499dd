//! An agent's tools: what there is, what of it is offered, what becomes of a call before it runs.

mod builder;
mod finish;
mod triage;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use steadfast_core::content::CallOutput;
use steadfast_core::input::RuleToday;

pub use builder::{CatalogBuilder, CatalogError};
use finish::Finish;
pub(crate) use finish::add_note;

use crate::approval::ApprovalPolicy;
use crate::filter::{FilterError, ToolFilter};
use crate::schema::Schema;
use crate::spec::ToolSpec;
use crate::worker::ToolWorker;

/// A tool of a catalog.
pub struct Tool {
    /// What it is to the outside.
    pub spec: ToolSpec,
    /// What runs it; `None`: the client does, a worker elsewhere, or the model's provider.
    pub worker: Option<Arc<dyn ToolWorker>>,
    /// Decides who must agree; `None`: the specification says it.
    pub policy: Option<ApprovalPolicy>,
    input: Schema,
    finish: Arc<Finish>,
}

impl Tool {
    /// A tool's own answer as it is kept: held against the output schema, mapped for the model.
    /// Answers of [`Tool::worker`] are so already.
    pub fn finished(&self, output: CallOutput) -> CallOutput {
        self.finish.apply(output)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("spec", &self.spec)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// A tool as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolListing {
    /// Its specification.
    #[serde(flatten)]
    pub spec: ToolSpec,
    /// Whether the model is offered it.
    pub active: bool,
    /// Whether who must agree is decided over the input, in place of `approval`.
    pub approval_by_policy: bool,
}

/// The tools of an agent, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Catalog {
    tools: Vec<Arc<Tool>>,
    by_name: BTreeMap<String, usize>,
}

impl Catalog {
    /// A catalog to be filled.
    pub fn builder() -> CatalogBuilder {
        CatalogBuilder::default()
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.by_name
            .get(name)
            .and_then(|index| self.tools.get(*index))
    }

    /// All tools, in order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.iter()
    }

    /// The tools that the model is offered, in order.
    pub fn offered<'a>(&'a self, filter: &'a ToolFilter) -> impl Iterator<Item = &'a Arc<Tool>> {
        self.tools().filter(|tool| filter.allows(&tool.spec.name))
    }

    /// All tools as the API shows them.
    pub fn listing(&self, filter: &ToolFilter) -> Vec<ToolListing> {
        let show = |tool: &Arc<Tool>| ToolListing {
            spec: tool.spec.clone(),
            active: filter.allows(&tool.spec.name),
            approval_by_policy: tool.policy.is_some(),
        };
        self.tools().map(show).collect()
    }

    /// The rule of a tool as configured now; `None`: there is no such tool any more.
    pub fn rule_today(&self, tool: &str) -> Option<RuleToday> {
        self.get(tool).map(|tool| RuleToday {
            rule: tool.spec.replay,
            has_check: tool.spec.check,
        })
    }

    /// The filter that an agent or a message asks for, refused if it says both or names a tool
    /// that is not there.
    pub fn admit_filter(
        &self,
        active: Option<&[String]>,
        inactive: Option<&[String]>,
    ) -> Result<ToolFilter, FilterError> {
        if active.is_some() && inactive.is_some() {
            return Err(FilterError::Both);
        }
        let named = active.or(inactive).unwrap_or_default();
        match named.iter().find(|name| !self.by_name.contains_key(*name)) {
            Some(name) => Err(FilterError::UnknownTool { name: name.clone() }),
            None => Ok(ToolFilter::new(active, inactive)),
        }
    }
}

#[cfg(test)]
mod tests;
