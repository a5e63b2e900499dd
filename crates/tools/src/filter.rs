//! Which tools of an agent are offered, said by the agent and by a message.

use std::collections::BTreeSet;

use thiserror::Error;

/// Why a filter was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FilterError {
    /// Both lists at once.
    #[error("active_tools and inactive_tools exclude each other: give one of them")]
    Both,
    /// A name that the agent does not have.
    #[error("the agent has no tool named {name:?}")]
    UnknownTool {
        /// The name.
        name: String,
    },
}

/// An allow-list, a deny-list, or, composed of several, both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolFilter {
    /// Only these are active; `None`: all are.
    active: Option<BTreeSet<String>>,
    /// These are not, whatever `active` says.
    inactive: BTreeSet<String>,
}

impl ToolFilter {
    /// What an agent or a message says. Names are not looked up and both lists count, so that a
    /// filter that was admitted long ago still works after its tools changed;
    /// [`Catalog::admit_filter`](crate::catalog::Catalog::admit_filter) is the check at the door.
    pub fn new(active: Option<&[String]>, inactive: Option<&[String]>) -> Self {
        Self {
            active: active.map(|names| names.iter().cloned().collect()),
            inactive: inactive.unwrap_or_default().iter().cloned().collect(),
        }
    }

    /// Both filters at once: a message narrows what its agent allows and never widens it.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let active = match (&self.active, &other.active) {
            (Some(left), Some(right)) => Some(left.intersection(right).cloned().collect()),
            (Some(one), None) | (None, Some(one)) => Some(one.clone()),
            (None, None) => None,
        };
        Self {
            active,
            inactive: self.inactive.union(&other.inactive).cloned().collect(),
        }
    }

    /// Whether a tool is active.
    pub fn allows(&self, tool: &str) -> bool {
        let listed = self
            .active
            .as_ref()
            .is_none_or(|names| names.contains(tool));
        listed && !self.inactive.contains(tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_message_narrows_what_its_agent_allows() {
        let (ab, bc, b) = (names(&["a", "b"]), names(&["b", "c"]), names(&["b"]));
        let all = ToolFilter::default();
        let agent = ToolFilter::new(Some(&ab), None);
        let allowed = |filter: &ToolFilter| -> String {
            ["a", "b", "c"]
                .into_iter()
                .filter(|name| filter.allows(name))
                .collect()
        };
        let cases = [
            (all.clone(), "abc"),
            (agent.clone(), "ab"),
            (all.and(&agent), "ab"),
            (agent.and(&ToolFilter::new(Some(&bc), None)), "b"),
            (agent.and(&ToolFilter::new(None, Some(&b))), "a"),
            (
                ToolFilter::new(None, Some(&b)).and(&ToolFilter::new(None, Some(&bc))),
                "a",
            ),
            (ToolFilter::new(Some(&[]), None), ""),
        ];
        for (filter, expected) in cases {
            assert_eq!(allowed(&filter), expected, "for {filter:?}");
        }
    }
}
