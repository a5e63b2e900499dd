//! The conformance suite: what every store must do, one test for each rule of the ports.
//!
//! ```text
//!   steadfast_store::conformance!(subject);              one #[tokio::test] for each case
//!   steadfast_store::persistence!(persistent);           and for what must survive a reopening
//!   steadfast_store::tool_queue_conformance!(subject);   and where remote tools can be run
//!
//!   subject().await -> Subject { stores, peer, clock, silence }     a fresh store for each case
//! ```
//!
//! The cases ask for nothing that a store of many nodes cannot do: where a port says that a read
//! may be behind, a case waits until it is not; where it leaves two answers open, both pass.
//! Nothing but a case's own sessions may stand in its store.

pub mod active;
pub mod blobs;
pub mod claims;
pub mod directory;
pub mod jobs;
pub mod live;
pub mod log;
pub mod log_fence;
mod macros;
pub mod mailbox;
pub mod mailbox_queue;
pub mod membership;
pub mod node_door;
pub mod persistence;
mod samples;
pub mod snapshots;
pub mod timers;

use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::clock::Clock;
use crate::stores::Stores;

/// Longest wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A fresh store under test.
pub struct Subject {
    /// Its ports.
    pub stores: Stores,
    /// The same store as another node sees it; a clone where only one node can be.
    pub peer: Stores,
    /// The clock that its timers follow.
    pub clock: Arc<dyn Clock>,
    /// After how long it repeats what was neither acknowledged nor given back. Cases wait for it in
    /// real time: a store that can be told to repeat sooner is tested sooner, but on a busy machine
    /// less than half a second cannot be told from a delay.
    pub silence: Duration,
    /// Whatever must live as long as the store: a directory, a server.
    pub keep: Box<dyn Any + Send>,
}

/// A store that can be closed and opened again.
pub struct Persistent {
    /// Opens it, the first time and again; the subject of the time before was dropped, which closes
    /// it. Waits for the closing where that takes time.
    pub open: Box<dyn Fn() -> BoxFuture<'static, Subject> + Send + Sync>,
    /// Whatever must live as long as its data.
    pub keep: Box<dyn Any + Send>,
}

/// A case as a value.
pub struct Case {
    /// Its file and its name.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(Subject) -> BoxFuture<'static, Outcome>,
}

/// How a case ends.
pub type Outcome = Result<(), Failure>;

/// A port failed where it must not, or what must happen did not.
pub struct Failure {
    at: &'static Location<'static>,
    what: String,
}

impl Failure {
    #[track_caller]
    fn new(what: impl Into<String>) -> Self {
        Self {
            at: Location::caller(),
            what: what.into(),
        }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    #[track_caller]
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.what, self.at)
    }
}

/// What a future gives, within [`PATIENCE`].
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T, Failure> {
    let late = |_| Failure::new(format!("{what}: did not happen within {PATIENCE:?}"));
    tokio::time::timeout(PATIENCE, future).await.map_err(late)
}

/// Whether a future gives nothing for a while.
async fn is_quiet<T>(duration: Duration, future: impl Future<Output = T>) -> bool {
    tokio::time::timeout(duration, future).await.is_err()
}

/// Looks again and again, for reads that may be behind, until they show what is expected.
async fn comes_to_show<T, F>(expected: T, mut look: impl FnMut() -> F) -> Outcome
where
    T: PartialEq + fmt::Debug,
    F: Future<Output = Result<T, Failure>>,
{
    let mut wait = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    loop {
        let shown = look().await?;
        if shown == expected {
            return Ok(());
        }
        if waited > PATIENCE {
            let what = format!("after {waited:?} a read shows {shown:?}, expected {expected:?}");
            return Err(Failure::new(what));
        }
        tokio::time::sleep(wait).await;
        waited += wait;
        wait = (wait * 2).min(Duration::from_millis(500));
    }
}
