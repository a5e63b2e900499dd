//! `[webhooks]`: who is told what becomes of turns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::duration::Duration;
use crate::config::secret::Secret;

/// Who is told what becomes of turns. Each event is a signed `POST`, sent until it is taken, over
/// every crash; one that comes twice has the same `webhook-id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookOptions {
    /// Where events are sent.
    pub url: String,
    /// What requests are signed with, as Standard Webhooks say: `whsec_` and the base64 of 24 to 64
    /// random bytes.
    pub secret: Secret,
    /// What is told.
    #[serde(default = "all_events")]
    #[schemars(length(min = 1))]
    pub events: Vec<WebhookEvent>,
    /// For one request with its answer.
    #[serde(default = "timeout")]
    pub timeout: Duration,
    /// An event that is this old and was not taken is given up.
    #[serde(default = "give_up_after")]
    pub give_up_after: Duration,
    /// Requests of this node at the same time.
    #[serde(default = "requests_max")]
    #[schemars(range(min = 1))]
    pub requests_max: u32,
}

/// What is told of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookEvent {
    /// A turn came to wait for an approval, a client's result or word of a call in doubt.
    Waiting,
    /// A turn ended, in whichever way.
    Ended,
}

fn all_events() -> Vec<WebhookEvent> {
    vec![WebhookEvent::Waiting, WebhookEvent::Ended]
}

fn timeout() -> Duration {
    Duration::from_secs(10)
}

fn give_up_after() -> Duration {
    Duration::from_secs(3_600)
}

fn requests_max() -> u32 {
    16
}
