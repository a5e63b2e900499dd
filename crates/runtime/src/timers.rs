//! Wakes sessions whose time has come.

use std::sync::Arc;

use steadfast_store::timers::Due;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::sessions::{KnockError, Sessions};

/// Wait after the timers could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// How often a session is woken again whose owner let go meanwhile, before its timer comes again.
const LOST_MAX: u32 = 3;

/// Runs until `shutdown`.
pub(crate) async fn run(host: Arc<Host>, sessions: Sessions, shutdown: CancellationToken) {
    let room = Arc::new(Semaphore::new(host.options.activations_max.max(1)));
    let mut wakings = JoinSet::new();
    loop {
        let due = tokio::select! { biased;
            () = shutdown.cancelled() => return,
            Some(_) = wakings.join_next(), if !wakings.is_empty() => continue,
            due = next(&host, &room) => due,
        };
        let Some((due, permit)) = due else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let (host, sessions) = (Arc::clone(&host), sessions.clone());
        wakings.spawn(async move {
            wake(&host, &sessions, due).await;
            drop(permit);
        });
    }
}

async fn next(
    host: &Host,
    room: &Arc<Semaphore>,
) -> Option<(Due, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match host.stores.timers.next().await {
        Ok(due) => Some((due, permit)),
        Err(error) => {
            tracing::warn!(%error, "timers not read, again");
            None
        }
    }
}

/// A timer is forgotten once its session has an owner or needs none; until then it comes again.
async fn wake(host: &Host, sessions: &Sessions, due: Due) {
    let mut woken = sessions.wake(&due.session, Some(due.epoch)).await;
    for _ in 0..LOST_MAX {
        // Its owner here let go meanwhile: it is read anew.
        if woken != Err(KnockError::Gone) {
            break;
        }
        woken = sessions.wake(&due.session, Some(due.epoch)).await;
    }
    match woken {
        Ok(()) => {
            if let Err(error) = host.stores.timers.acknowledge(&due).await {
                tracing::debug!(session = %due.session, %error, "timer not forgotten");
            }
        }
        Err(error) => tracing::warn!(session = %due.session, ?error, "session not woken"),
    }
}
