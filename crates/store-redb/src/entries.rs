//! Entries of the index of owned sessions that wait for the Record which they announce.
//!
//! An entry must be on the disk no later than the first Record that follows it, so it is written by
//! the very append of that Record: one way to the writer instead of two. Whoever reads the index
//! has those written first that still wait.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use steadfast_core::id::Timestamp;

/// What the index says of one session of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) version: u64,
    pub(crate) at: Timestamp,
}

impl Entry {
    /// Its row.
    pub(crate) fn encode(self) -> [u8; 16] {
        let mut row = [0; 16];
        let (version, at) = row.split_at_mut(8);
        version.copy_from_slice(&self.version.to_be_bytes());
        at.copy_from_slice(&self.at.0.to_be_bytes());
        row
    }
}

/// All that wait, by the key of their row. Each is dropped once its Record is appended, or when it is
/// removed: one whose Record never came is found in the index by a sweep, which removes it.
#[derive(Debug, Default)]
pub(crate) struct WaitingEntries {
    by_key: Mutex<BTreeMap<Vec<u8>, Entry>>,
}

impl WaitingEntries {
    /// Lets an entry wait, in the place of an older one.
    pub(crate) fn add(&self, key: Vec<u8>, entry: Entry) {
        self.lock().insert(key, entry);
    }

    /// The one that waits under a key, which is asked for only if any waits.
    pub(crate) fn find(&self, key: impl FnOnce() -> Vec<u8>) -> Option<(Vec<u8>, Entry)> {
        let by_key = self.lock();
        if by_key.is_empty() {
            return None;
        }
        let key = key();
        by_key.get(&key).copied().map(|entry| (key, entry))
    }

    /// All.
    pub(crate) fn all(&self) -> Vec<(Vec<u8>, Entry)> {
        let by_key = self.lock();
        by_key
            .iter()
            .map(|(key, entry)| (key.clone(), *entry))
            .collect()
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Drops an entry, unless it is newer than `version`.
    pub(crate) fn drop_up_to(&self, key: &[u8], version: u64) {
        let mut by_key = self.lock();
        if by_key
            .get(key)
            .is_some_and(|entry| entry.version <= version)
        {
            by_key.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Entry>> {
        // Single operations of the map: nobody who holds the lock leaves it half changed.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
