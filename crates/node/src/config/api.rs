//! `[api]`: who may ask what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::secret::Secret;

/// Who may ask what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiOptions {
    /// Keys, given as `Authorization: Bearer KEY`. Without any, the node serves loopback addresses
    /// only, everybody is the tenant `default`, and an operator.
    pub keys: Vec<KeyOptions>,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyOptions {
    /// Name in logs.
    pub name: String,
    /// The key itself.
    pub key: Secret,
    /// Whose sessions it opens.
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// It may also repair sessions and settle calls that are in doubt.
    #[serde(default)]
    pub operator: bool,
}

fn default_tenant() -> String {
    "default".to_owned()
}
