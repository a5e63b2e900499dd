//! When something is due for parked drivers: one timer for all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Door;

/// When something is due, and the number that divides those of one instant.
pub(super) type Ticket = (Instant, u64);

/// Parked drivers that wait for a time.
#[derive(Default)]
pub(super) struct Lot {
    waiting: Mutex<Waiting>,
    /// Notified when the first time is another.
    earlier: Notify,
}

#[derive(Default)]
struct Waiting {
    tickets: u64,
    doors: BTreeMap<Ticket, Arc<Door>>,
}

impl Lot {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Changed by single operations: a panic elsewhere means nothing here.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, at: Instant, door: Arc<Door>) -> Ticket {
        let mut waiting = self.lock();
        waiting.tickets += 1;
        let ticket = (at, waiting.tickets);
        waiting.doors.insert(ticket, door);
        if waiting.doors.first_key_value().map(|(first, _)| *first) == Some(ticket) {
            self.earlier.notify_one();
        }
        ticket
    }

    pub(super) fn forget(&self, ticket: Ticket) {
        self.lock().doors.remove(&ticket);
    }

    /// Waits for the next one whose time has come.
    pub(super) async fn due(&self) -> Arc<Door> {
        loop {
            let first = match self.first() {
                Ok(door) => return door,
                Err(first) => first,
            };
            let time = async {
                match first {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { biased;
                () = self.earlier.notified() => {}
                () = time => {}
            }
        }
    }

    /// The first one, if its time has come, or that time.
    fn first(&self) -> Result<Arc<Door>, Option<Instant>> {
        let mut waiting = self.lock();
        match waiting.doors.first_entry() {
            Some(entry) if entry.key().0 <= Instant::now() => Ok(entry.remove()),
            Some(entry) => Err(Some(entry.key().0)),
            None => Err(None),
        }
    }
}
