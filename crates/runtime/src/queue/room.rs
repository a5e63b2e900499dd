//! Room for sessions that are being opened, shared fairly between tenants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steadfast_core::id::TenantId;

/// So many places, of which no tenant has more than three quarters: the others find room at once,
/// however much mail one has.
pub(super) struct Room {
    places_max: usize,
    taken: Mutex<BTreeMap<TenantId, usize>>,
}

/// A place; given back when it is dropped.
pub(super) struct Place {
    room: Arc<Room>,
    tenant: TenantId,
}

impl Room {
    pub(super) fn new(places_max: usize) -> Self {
        Self {
            places_max: places_max.max(1),
            taken: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TenantId, usize>> {
        // Changed by single operations: a panic elsewhere means nothing here.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one session of a tenant, if there is one now.
    pub(super) fn enter(room: &Arc<Self>, tenant: &TenantId) -> Option<Place> {
        let mut taken = room.lock();
        let share = (room.places_max - room.places_max / 4).max(1);
        let all: usize = taken.values().sum();
        let own = taken.get(tenant).copied().unwrap_or_default();
        if all >= room.places_max || own >= share {
            return None;
        }
        *taken.entry(tenant.clone()).or_default() += 1;
        Some(Place {
            room: Arc::clone(room),
            tenant: tenant.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.lock();
        if let Some(own) = taken.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_leaves_room_for_the_others() {
        let room = Arc::new(Room::new(4));
        let (busy, quiet) = (TenantId::new("a").unwrap(), TenantId::new("b").unwrap());
        let places: Vec<_> = (0..10).filter_map(|_| Room::enter(&room, &busy)).collect();
        assert_eq!(places.len(), 3);
        let other = Room::enter(&room, &quiet);
        assert!(other.is_some());
        assert!(Room::enter(&room, &quiet).is_none());
        drop((places, other));
        assert!(room.lock().is_empty());
    }
}
