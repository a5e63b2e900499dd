//! `[node]`: the process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::duration::Duration;

/// The process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NodeOptions {
    /// Name in logs and in the log of each session; 1 to 40 of [A-Za-z0-9_-]. Each start adds an id
    /// of its own to it. Default: the host's name.
    pub name: Option<String>,
    /// Address and port of the HTTP API. Without API keys only a loopback address is accepted. Port
    /// 0 takes any free port.
    pub listen: String,
    /// How long running work may go on after a signal to stop, before it is cut off; the next start
    /// goes on with it.
    pub drain_grace: Duration,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            name: None,
            listen: "127.0.0.1:7070".to_owned(),
            drain_grace: Duration::from_secs(20),
        }
    }
}
