//! `[api]`: who may ask what, and how much.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::duration::Duration;
use crate::config::secret::Secret;

/// Who may ask what, and how much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApiOptions {
    /// Keys, given as `Authorization: Bearer KEY`. Without any, the node serves this machine only:
    /// everybody on it is the tenant `default` and may do everything.
    pub keys: Vec<KeyOptions>,
    /// Without keys: names that a request's `Host` header may have besides this machine's own.
    pub hosts_allowed: Vec<String>,
    /// Without keys: origins such as `https://app.example` whose web pages may call besides this
    /// machine's.
    pub origins_allowed: Vec<String>,
    /// Bytes of a request's body, at most.
    #[schemars(range(min = 1024))]
    pub body_bytes_max: usize,
    /// Open connections, at most; more wait.
    #[schemars(range(min = 1))]
    pub connections_max: usize,
    /// Streams of the node at the same time, at most.
    #[schemars(range(min = 1))]
    pub streams_max: usize,
    /// Streams of one tenant at the same time, at most.
    #[schemars(range(min = 1))]
    pub tenant_streams_max: usize,
    /// What a request may ask to wait for, at most (`?wait=`).
    pub wait_max: Duration,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyOptions {
    /// The key itself.
    pub key: Secret,
    /// Whose sessions it opens.
    #[serde(default = "default_tenant")]
    pub tenant: String,
    /// What it may do.
    #[serde(default = "default_scopes")]
    pub scopes: Vec<ScopeKind>,
}

/// One thing that a key may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeKind {
    /// Read sessions and agents.
    Read,
    /// Send messages and other commands.
    Write,
    /// Settle calls that are in doubt, repair sessions.
    Operate,
    /// Read the node's metrics.
    Metrics,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            hosts_allowed: Vec::new(),
            origins_allowed: Vec::new(),
            body_bytes_max: 8 * 1024 * 1024,
            connections_max: 20_000,
            streams_max: 10_000,
            tenant_streams_max: 5_000,
            wait_max: Duration::from_secs(600),
        }
    }
}

fn default_tenant() -> String {
    "default".to_owned()
}

fn default_scopes() -> Vec<ScopeKind> {
    vec![ScopeKind::Read, ScopeKind::Write]
}
