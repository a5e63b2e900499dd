//! Room for sessions that are being opened, shared fairly between tenants.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast_core::id::TenantId;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// So many places, of which no tenant has more than three quarters: the others find room at once,
/// however much mail one has. The same holds for those who wait for a place.
pub(super) struct Room {
    places_max: usize,
    waiting_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: BTreeMap<TenantId, usize>,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    tenant: TenantId,
    place: oneshot::Sender<Place>,
}

/// A place; given back when it is dropped.
pub(super) struct Place {
    room: Arc<Room>,
    tenant: TenantId,
}

/// The most that one tenant has of so many.
fn share(of: usize) -> usize {
    (of - of / 4).max(1)
}

impl Room {
    pub(super) fn new(places_max: usize, waiting_max: usize) -> Self {
        Self {
            places_max: places_max.max(1),
            waiting_max,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Changed by single operations: a panic elsewhere means nothing here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one session of a tenant, if one comes free within a time.
    pub(super) async fn enter(
        room: &Arc<Self>,
        tenant: &TenantId,
        patience: Duration,
    ) -> Option<Place> {
        let coming = match Self::ask(room, tenant) {
            Ok(place) => return Some(place),
            Err(coming) => coming?,
        };
        timeout(patience, coming).await.ok()?.ok()
    }

    /// A place, or, if there is none now, where it comes; not even that when too many wait.
    fn ask(room: &Arc<Self>, tenant: &TenantId) -> Result<Place, Option<oneshot::Receiver<Place>>> {
        let mut state = room.lock();
        if state.take(room.places_max, tenant) {
            return Ok(Place {
                room: Arc::clone(room),
                tenant: tenant.clone(),
            });
        }
        state.waiting.retain(|waiting| !waiting.place.is_closed());
        let own = state.waiting.iter().filter(|w| w.tenant == *tenant).count();
        if state.waiting.len() >= room.waiting_max || own >= share(room.waiting_max) {
            return Err(None);
        }
        let (place, coming) = oneshot::channel();
        let tenant = tenant.clone();
        state.waiting.push_back(Waiting { tenant, place });
        Err(Some(coming))
    }

    /// Gives free places to those who wait.
    fn pass_on(self: &Arc<Self>) {
        while let Some(Waiting { tenant, place }) = self.next() {
            let room = Arc::clone(self);
            // Who left meanwhile drops it here, and it goes to the next.
            drop(place.send(Place { room, tenant }));
        }
    }

    /// The first who waits, still waits and may have a place now, which is then taken.
    fn next(&self) -> Option<Waiting> {
        let mut state = self.lock();
        let mut at = 0;
        loop {
            let waiting = state.waiting.get(at)?;
            if waiting.place.is_closed() {
                state.waiting.remove(at);
                continue;
            }
            let tenant = waiting.tenant.clone();
            if state.take(self.places_max, &tenant) {
                return state.waiting.remove(at);
            }
            at += 1;
        }
    }
}

impl State {
    fn take(&mut self, places_max: usize, tenant: &TenantId) -> bool {
        let all: usize = self.taken.values().sum();
        let own = self.taken.get(tenant).copied().unwrap_or_default();
        if all >= places_max || own >= share(places_max) {
            return false;
        }
        *self.taken.entry(tenant.clone()).or_default() += 1;
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.room.lock();
        if let Some(own) = state.taken.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                state.taken.remove(&self.tenant);
            }
        }
        drop(state);
        self.room.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn tenants() -> (TenantId, TenantId) {
        (TenantId::new("a").unwrap(), TenantId::new("b").unwrap())
    }

    fn places(room: &Arc<Room>, tenant: &TenantId, count: usize) -> Vec<Place> {
        (0..count)
            .filter_map(|_| Room::ask(room, tenant).ok())
            .collect()
    }

    #[test]
    fn one_tenant_leaves_room_for_the_others() {
        let room = Arc::new(Room::new(4, 0));
        let (busy, quiet) = tenants();
        let held = places(&room, &busy, 10);
        assert_eq!(held.len(), 3);
        let other = places(&room, &quiet, 10);
        assert_eq!(other.len(), 1);
        drop((held, other));
        assert!(room.lock().taken.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_has_the_first_place_that_comes_free() {
        let room = Arc::new(Room::new(4, 4));
        let (busy, quiet) = tenants();
        let mut held = places(&room, &busy, 3);
        let patience = Duration::from_secs(1);
        let mut first = Box::pin(Room::enter(&room, &busy, patience));
        let mut second = Box::pin(Room::enter(&room, &busy, patience));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        // Not behind those who wait for a share that is used up.
        let other = Room::enter(&room, &quiet, patience)
            .now_or_never()
            .flatten();
        assert!(other.is_some());
        held.pop();
        assert!(first.await.is_some(), "it was given back at once, too");
        assert!(second.await.is_some());
        drop((held, other));
        assert!(room.lock().taken.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waited_in_vain_takes_no_place() {
        let room = Arc::new(Room::new(1, 4));
        let (busy, _) = tenants();
        let held = places(&room, &busy, 1);
        assert!(
            Room::enter(&room, &busy, Duration::from_secs(1))
                .await
                .is_none()
        );
        let left = Room::ask(&room, &busy);
        drop(left);
        drop(held);
        assert!(room.lock().taken.is_empty());
        assert_eq!(places(&room, &busy, 2).len(), 1);
    }

    #[test]
    fn no_more_wait_than_may() {
        let room = Arc::new(Room::new(1, 4));
        let (busy, quiet) = tenants();
        let _held = places(&room, &busy, 1);
        let mut waiting = Vec::new();
        for tenant in [&busy, &busy, &busy, &busy, &quiet, &quiet] {
            waiting.extend(Room::ask(&room, tenant).err().flatten());
        }
        assert_eq!(waiting.len(), 4);
    }
}
