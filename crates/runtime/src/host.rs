//! What every session of this process shares.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use steadfast_core::id::{NodeId, Timestamp};
use steadfast_harness::native::kept::Room;
use steadfast_store::Stores;

use crate::agent::{Agent, Agents};
use crate::handover::Handover;
use crate::members::Members;
use crate::options::Options;
use crate::pools::Pools;
use crate::remote::JobCounts;
use crate::sessions::{Sessions, WeakSessions};
use crate::webhook::Webhook;
use steadfast_store::clock::Clock;

/// This process: its ports, agents and limits.
pub(crate) struct Host {
    /// Limits.
    pub(crate) options: Options,
    /// The ports of the store.
    pub(crate) stores: Stores,
    /// Configured agents.
    pub(crate) agents: Agents,
    /// The time of day.
    pub(crate) clock: Arc<dyn Clock>,
    /// Memory for what requests to models were built from.
    pub(crate) history_room: Room,
    /// Drawn at process start.
    pub(crate) node: NodeId,
    /// When it started.
    pub(crate) started: tokio::time::Instant,
    /// Where tools run.
    pub(crate) pools: Pools,
    /// Which nodes are alive.
    pub(crate) members: Arc<Members>,
    /// Whose turn it is to go when the node stops.
    pub(crate) handover: Handover,
    /// What a drain cut off.
    pub(crate) cut: Cut,
    /// Who is told what becomes of turns.
    pub(crate) webhook: Option<Webhook>,
    /// What happened to jobs of remote tools.
    pub(crate) jobs: JobCounts,
    /// All sessions, for calls that are answered by another one. They hold this, so it does not
    /// hold them.
    pub(crate) sessions: OnceLock<WeakSessions>,
}

/// Calls that were cut off because the node lets go of its sessions.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// They run again under the same key.
    pub(crate) repeated: AtomicU64,
    /// Nobody knows whether they happened.
    pub(crate) in_doubt: AtomicU64,
}

impl Host {
    /// Makes the sessions known that are built on this.
    pub(crate) fn link(&self, sessions: &Sessions) {
        // There is one set of them for each host.
        let _ = self.sessions.set(sessions.downgrade());
    }

    /// All sessions; `None`: the runtime is gone.
    pub(crate) fn sessions(&self) -> Option<Sessions> {
        self.sessions.get()?.upgrade()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn agent(&self, name: &steadfast_core::id::AgentName) -> Option<&Arc<Agent>> {
        self.agents.get(name)
    }
}

/// Doubles a wait for each try, from `min` up to `max`.
pub(crate) fn backoff(min: Duration, max: Duration, tries: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
    min.saturating_mul(doubled).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_maximum() {
        let (min, max) = (Duration::from_millis(50), Duration::from_secs(2));
        let waits: Vec<u128> = [0, 1, 2, 3, 6, 7, 100]
            .map(|tries| backoff(min, max, tries).as_millis())
            .to_vec();
        assert_eq!(waits, [50, 50, 100, 200, 1_600, 2_000, 2_000]);
    }
}
