//! An agent's tools: what there is, what of it is offered, what becomes of a call before it runs.

mod builder;
mod finish;
mod line;
mod source;
mod triage;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use steadfast_core::content::CallOutput;
use steadfast_core::input::RuleToday;

pub(crate) use builder::sound;
pub use builder::{CatalogBuilder, CatalogError};
use finish::Finish;
pub(crate) use finish::add_note;
pub use line::Line;
pub(crate) use source::SEPARATOR;
pub use source::{Refused, SourceState, Stock, ToolSource};

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
    /// Where its calls wait for their places.
    pub line: Line,
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

/// The tools of an agent: its own in the order in which they were added, then those of each of its
/// sources, as they are now.
#[derive(Default)]
pub struct Catalog {
    tools: Vec<Arc<Tool>>,
    by_name: BTreeMap<String, usize>,
    sources: Vec<Arc<dyn ToolSource>>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources: Vec<&str> = self.sources.iter().map(|source| source.name()).collect();
        f.debug_struct("Catalog")
            .field("tools", &self.tools)
            .field("sources", &sources)
            .finish_non_exhaustive()
    }
}

impl Catalog {
    /// A catalog to be filled.
    pub fn builder() -> CatalogBuilder {
        CatalogBuilder::default()
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Tool>> {
        let own = self.by_name.get(name);
        match own.and_then(|index| self.tools.get(*index)) {
            Some(tool) => Some(Arc::clone(tool)),
            None => self.source_of(name)?.stock().get(name).cloned(),
        }
    }

    /// All tools, in order.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        let mut tools = self.tools.clone();
        for source in &self.sources {
            tools.extend(source.stock().tools().cloned());
        }
        tools
    }

    /// The tools that the model is offered, in order.
    pub fn offered(&self, filter: &ToolFilter) -> Vec<Arc<Tool>> {
        let mut tools = self.tools();
        tools.retain(|tool| filter.allows(&tool.spec.name));
        tools
    }

    /// Where tools come from that are not known beforehand.
    pub fn sources(&self) -> &[Arc<dyn ToolSource>] {
        &self.sources
    }

    /// The source that a tool of this name would come from.
    pub fn source_of(&self, name: &str) -> Option<&Arc<dyn ToolSource>> {
        let (source, _) = name.split_once(source::SEPARATOR)?;
        self.sources.iter().find(|known| known.name() == source)
    }

    /// Whether there is a tool of this name, or may be one once its source is reached.
    pub fn may_have(&self, name: &str) -> bool {
        self.by_name.contains_key(name) || self.source_of(name).is_some()
    }

    /// All tools as the API shows them.
    pub fn listing(&self, filter: &ToolFilter) -> Vec<ToolListing> {
        let show = |tool: &Arc<Tool>| ToolListing {
            spec: tool.spec.clone(),
            active: filter.allows(&tool.spec.name),
            approval_by_policy: tool.policy.is_some(),
        };
        self.tools().iter().map(show).collect()
    }

    /// The rule of a tool as configured now, of a call recorded under another; `None`: there is no
    /// such tool any more. While the tool's source is not reached the recorded rule holds.
    pub fn rule_today(&self, name: &str, recorded: RuleToday) -> Option<RuleToday> {
        if let Some(tool) = self.get(name) {
            return Some(RuleToday {
                rule: tool.spec.replay,
                has_check: tool.spec.check,
            });
        }
        let stock = self.source_of(name)?.stock();
        (stock.state != SourceState::Up).then_some(recorded)
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
        match named.iter().find(|name| !self.may_have(name)) {
            Some(name) => Err(FilterError::UnknownTool { name: name.clone() }),
            None => Ok(ToolFilter::new(active, inactive)),
        }
    }
}

#[cfg(test)]
mod tests;
