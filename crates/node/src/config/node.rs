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
    /// What this node does. One without `driver` takes requests and begins their turns, and hands
    /// them over after `handover_after`; one without `api` serves health and metrics only.
    #[schemars(length(min = 1))]
    pub roles: Vec<Role>,
    /// How long a node without the role `driver` keeps a session before it lets go of it between
    /// two steps; running calls are never cut off by that. With "0s" it begins no turn at all and
    /// leaves all to the queue.
    pub handover_after: Duration,
    /// How long running tool calls may go on after a signal to stop, before they are cut off; model
    /// calls are not waited for. Another node, or the next start, goes on with the turns.
    pub drain_grace: Duration,
}

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Serves the HTTP API.
    Api,
    /// Takes sessions from the queue, from timers and from nodes that are gone.
    Driver,
    /// Runs calls of remote tools, for the sessions of all nodes.
    Worker,
}

impl NodeOptions {
    /// Whether it has a role.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            name: None,
            listen: "127.0.0.1:7070".to_owned(),
            roles: vec![Role::Api, Role::Driver, Role::Worker],
            handover_after: Duration::from_secs(60),
            drain_grace: Duration::from_secs(60),
        }
    }
}
