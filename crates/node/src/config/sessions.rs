//! `[sessions]`: sessions in memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::duration::Duration;

/// Sessions in memory. A session that is not there costs nothing but disk, and comes back by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsOptions {
    /// How long an idle session stays in memory.
    pub idle_after: Duration,
    /// Sessions in memory at the same time, at most; above it new commands are answered with 503.
    #[schemars(range(min = 1))]
    pub in_memory_max: u32,
    /// How long a client waits for the decision about its command before it is answered 202 or 503.
    pub admission_patience: Duration,
    /// How long a write whose outcome is not known is repeated before the session is let go.
    pub append_patience: Duration,
    /// How long a cancelled model or tool call may take to stop by itself.
    pub cancel_grace: Duration,
}

impl Default for SessionsOptions {
    fn default() -> Self {
        Self {
            idle_after: Duration::from_secs(60),
            in_memory_max: 100_000,
            admission_patience: Duration::from_secs(5),
            append_patience: Duration::from_secs(60),
            cancel_grace: Duration::from_secs(5),
        }
    }
}
