//! Tools that come and go, as a model was last offered them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::Digest;

/// Tools of an agent that come from elsewhere, where they may change at any time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfferedTools {
    /// A digest of each tool as the model sees it, by name.
    pub tools: BTreeMap<String, Digest>,
    /// Servers whose tools are missing, since they could not be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl OfferedTools {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.missing.is_empty()
    }
}
