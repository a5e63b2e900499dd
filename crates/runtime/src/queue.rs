//! The queue driver: takes sessions with mail to their owner here, or gives them one.

use std::sync::Arc;

use steadfast_core::id::SessionKey;
use steadfast_store::mailbox::Delivery;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::doors::Knock;
use crate::host::Host;
use crate::sessions::Sessions;

/// Wait after the queue could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// Runs until `shutdown`. It never stops taking news: what it bounds is how many sessions it opens
/// at the same time; for the rest it waits, and the store keeps the news.
pub(crate) async fn run(host: Arc<Host>, sessions: Sessions, shutdown: CancellationToken) {
    let room = Arc::new(Semaphore::new(host.options.activations_max.max(1)));
    let mut hints = JoinSet::new();
    loop {
        let taken = tokio::select! { biased;
            () = shutdown.cancelled() => return,
            Some(_) = hints.join_next(), if !hints.is_empty() => continue,
            taken = next(&host, &room) => taken,
        };
        let Some((delivery, permit)) = taken else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let (host, sessions) = (Arc::clone(&host), sessions.clone());
        hints.spawn(async move {
            deliver(&host, &sessions, delivery).await;
            drop(permit);
        });
    }
}

/// The next news, with room to act on it.
async fn next(
    host: &Host,
    room: &Arc<Semaphore>,
) -> Option<(Delivery, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match host.stores.mailbox.next().await {
        Ok(delivery) => Some((delivery, permit)),
        Err(error) => {
            tracing::warn!(%error, "queue not read, again");
            None
        }
    }
}

async fn deliver(host: &Host, sessions: &Sessions, delivery: Delivery) {
    let key: SessionKey = delivery.session.clone();
    match sessions.knock(&key, Knock::Mail).await {
        // The owner reads the mailbox itself, and removes what it has decided.
        Ok(door) => door.opened().await,
        Err(error) => {
            tracing::debug!(session = %key, ?error, "mail given back");
            let delay = host.options.mail_delay;
            if let Err(error) = host.stores.mailbox.give_back(delivery, delay).await {
                // It comes again by itself.
                tracing::debug!(session = %key, %error, "mail not given back");
            }
        }
    }
}
