//! A node that runs.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use steadfast_core::id::NodeId;
use steadfast_runtime::RuntimeHandle;
use steadfast_runtime::sessions::Sessions;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::signal::Signals;
use crate::wiring::predecessor::Place;
use crate::wiring::store::OpenStore;

/// Once a drain is cut short, all the rest is given this long.
const HURRY_MAX: Duration = Duration::from_secs(1);

/// A running node. Dropping it ends it at once, as a crash would; [`RunningNode::shutdown`] lets go
/// of its sessions first.
pub struct RunningNode {
    parts: Parts,
}

/// What it is made of.
pub(crate) struct Parts {
    pub(crate) node: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) sessions: Sessions,
    pub(crate) runtime: RuntimeHandle,
    pub(crate) server: JoinHandle<()>,
    pub(crate) store: OpenStore,
    pub(crate) place: Place,
    pub(crate) shutdown: CancellationToken,
    pub(crate) drain_grace: Duration,
}

impl RunningNode {
    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    /// Address of its HTTP API.
    pub fn url(&self) -> String {
        format!("http://{}", self.parts.address)
    }

    /// The name that this process drew at its start.
    pub fn node(&self) -> &NodeId {
        &self.parts.node
    }

    /// The handle to its sessions: sends commands, reads and follows, without HTTP.
    pub fn sessions(&self) -> &Sessions {
        &self.parts.sessions
    }

    /// Waits until the store has failed, and tells why. Nothing can be kept from then on: the
    /// process should end and start anew.
    pub async fn failed(&self) -> String {
        self.parts.store.failed().await
    }

    /// Stops taking requests, lets running work reach a safe point, lets go of all sessions, and
    /// closes the store. What is not done in time goes on at the next start.
    pub async fn shutdown(self) {
        self.shutdown_unless(std::future::pending()).await;
    }

    /// The same; what still runs when `give_up` is ready is cut off.
    pub async fn shutdown_unless(self, give_up: impl Future<Output = ()>) {
        let Parts {
            runtime,
            server,
            store,
            shutdown,
            drain_grace,
            sessions,
            // Until all is over: who comes next must not take this process for gone before.
            place: _place,
            ..
        } = self.parts;
        shutdown.cancel();
        drop(sessions);
        let hurried = CancellationToken::new();
        let patience = async {
            tokio::select! {
                () = give_up => {}
                // The drain keeps its own time; this only bounds what must not be unbounded.
                () = tokio::time::sleep(drain_grace + Duration::from_secs(15)) => {}
            }
            hurried.cancel();
        };
        let in_order = async {
            let drained = runtime.shutdown(patience).await;
            if let Err(error) = server.await {
                tracing::error!(%error, "the HTTP server failed");
            }
            if let Err(error) = store.close().await {
                tracing::error!(%error, "the store was not closed in good order");
            }
            drained
        };
        let too_late = async {
            hurried.cancelled().await;
            tokio::time::sleep(HURRY_MAX).await;
        };
        tokio::select! { biased;
            drained = in_order => tracing::info!(
                sessions_left = drained.left,
                calls_cut_and_repeated = drained.repeated,
                calls_cut_and_in_doubt = drained.in_doubt,
                "node stopped"
            ),
            () = too_late => {
                tracing::warn!("node stopped as by a crash: its sessions go on where their log ends");
            }
        }
    }

    /// Runs until the process is told to stop (SIGINT, SIGTERM), then shuts down; a second signal
    /// cuts that short. An error if the store failed meanwhile.
    pub async fn run_until_signal(self) -> anyhow::Result<()> {
        let mut signals = Signals::new()?;
        let failed = tokio::select! {
            name = signals.next() => {
                tracing::info!(signal = name, "stopping; a second signal stops at once");
                None
            }
            reason = self.failed() => Some(reason),
        };
        let give_up = async {
            signals.next().await;
        };
        self.shutdown_unless(give_up).await;
        match failed {
            None => Ok(()),
            Some(reason) => anyhow::bail!(
                "the store failed: {reason}; what was acknowledged is on disk, start the node anew"
            ),
        }
    }
}
