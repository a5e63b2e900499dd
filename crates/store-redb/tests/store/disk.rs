//! A disk that keeps only what it was asked to keep, and fails when told to.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rand::Rng;
use rand::rngs::StdRng;
use redb::StorageBackend;
use steadfast_store_redb::Source;

/// Bytes that reach the disk together or not at all.
const SECTOR_BYTES: usize = 512;

/// Bytes of the database's pages.
const PAGE_BYTES: usize = 4_096;

/// The disk; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    gate_moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What a crash leaves for sure.
    kept: Vec<u8>,
    /// What a reader sees.
    seen: Vec<u8>,
    /// What a crash may leave of, or not.
    unsynced: Vec<Change>,
    /// Calls until all fail.
    calls_left: Option<u64>,
    /// Whether the power is off.
    is_off: bool,
    /// Bytes it has room for, and what notices when there is no more.
    capacity: Option<(usize, Notices)>,
    syncs: u64,
    gate: Gate,
}

/// What fails when a disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notices {
    /// Making the file longer.
    Length,
    /// Writing bytes, as on a file system where a longer file takes no room yet.
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Gate {
    #[default]
    Open,
    /// The next sync waits.
    Shut,
    /// A sync waits.
    Held,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Disk {
    /// Opens it, as a store does.
    pub(crate) fn source(&self) -> Source {
        let disk = self.clone();
        Box::new(move || Ok(Box::new(disk.clone()) as Box<dyn StorageBackend>))
    }

    /// From now on, that many calls work, then none.
    pub(crate) fn fail_after(&self, calls: u64) {
        self.lock().calls_left = Some(calls);
    }

    /// Room for this many bytes; `None`: enough.
    pub(crate) fn set_capacity(&self, capacity: Option<(usize, Notices)>) {
        self.lock().capacity = capacity;
    }

    /// Length of the file.
    pub(crate) fn length(&self) -> usize {
        self.lock().seen.len()
    }

    /// How often it was asked to keep what was written.
    pub(crate) fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Lets the next sync wait until [`Self::open_gate`].
    pub(crate) fn shut_gate(&self) {
        self.lock().gate = Gate::Shut;
    }

    /// Waits until a sync waits.
    pub(crate) fn await_held_sync(&self) {
        let state = self.lock();
        let held = self
            .shared
            .gate_moved
            .wait_while(state, |state| state.gate != Gate::Held);
        drop(held.unwrap());
    }

    /// Lets syncs go on.
    pub(crate) fn open_gate(&self) {
        self.lock().gate = Gate::Open;
        self.shared.gate_moved.notify_all();
    }

    /// Replaces bytes wherever they stand; tells how often they did.
    pub(crate) fn damage(&self, find: &[u8], put: &[u8]) -> usize {
        assert_eq!(find.len(), put.len());
        let mut state = self.lock();
        let places: Vec<usize> = state
            .seen
            .windows(find.len())
            .enumerate()
            .filter(|(_, window)| *window == find)
            .map(|(at, _)| at)
            .collect();
        for at in &places {
            state.seen[*at..*at + put.len()].copy_from_slice(put);
        }
        state.kept = state.seen.clone();
        places.len()
    }

    /// Makes nonsense of each page that holds these bytes; those that are not in use any more, too.
    pub(crate) fn damage_page(&self, find: &[u8]) {
        let mut state = self.lock();
        let places: Vec<usize> = state
            .seen
            .windows(find.len())
            .enumerate()
            .filter(|(_, window)| *window == find)
            .map(|(at, _)| at / PAGE_BYTES * PAGE_BYTES)
            .collect();
        assert!(!places.is_empty());
        for start in places {
            state.seen[start..start + 8].fill(0xee);
        }
        state.kept = state.seen.clone();
    }

    /// Turns the power off: what was not synced survives in part, at random. Gives the disk as the
    /// next start finds it.
    pub(crate) fn crash(&self, random: &mut StdRng) -> Self {
        let mut state = self.lock();
        state.is_off = true;
        let mut left = state.kept.clone();
        let count = state.unsynced.len();
        let survival = Survival::draw(count, random);
        for (index, change) in state.unsynced.iter().enumerate() {
            if survival.keeps(index, random) {
                change.apply(&mut left, survival, random);
            }
        }
        let disk = Self::default();
        {
            let mut state = disk.lock();
            state.kept = left.clone();
            state.seen = left;
        }
        disk
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Counts a call.
    fn call(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        match &mut state.calls_left {
            Some(0) => state.is_off = true,
            Some(calls) => *calls -= 1,
            None => {}
        }
        if state.is_off {
            return Err(io::Error::other("the disk is off"));
        }
        Ok(state)
    }
}

/// What a crash leaves of the changes that were not synced.
#[derive(Debug, Clone, Copy)]
enum Survival {
    Nothing,
    All,
    First(usize),
    Some { torn: bool },
}

impl Survival {
    fn draw(count: usize, random: &mut StdRng) -> Self {
        match random.random_range(0..6) {
            0 => Self::Nothing,
            1 => Self::All,
            2 => Self::First(random.random_range(0..=count)),
            3 => Self::Some { torn: false },
            _ => Self::Some { torn: true },
        }
    }

    fn keeps(self, index: usize, random: &mut StdRng) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::First(count) => index < count,
            Self::Some { .. } => random.random(),
        }
    }
}

impl Change {
    fn apply(&self, left: &mut Vec<u8>, survival: Survival, random: &mut StdRng) {
        match self {
            Self::SetLen(length) => left.resize(*length, 0),
            Self::Write { offset, bytes } => {
                let torn = matches!(survival, Survival::Some { torn: true });
                for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                    let at = offset + index * SECTOR_BYTES;
                    let lost = torn && random.random_ratio(1, 4);
                    // The file was never so long: its new length did not survive.
                    if !lost && let Some(place) = left.get_mut(at..at + sector.len()) {
                        place.copy_from_slice(sector);
                    }
                }
            }
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.call()?.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.call()?;
        let offset = usize::try_from(offset).unwrap();
        match state.seen.get(offset..offset + out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.call()?;
        let length = usize::try_from(length).unwrap();
        if let Some((capacity, Notices::Length)) = state.capacity
            && length > capacity
            && length > state.seen.len()
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.seen.resize(length, 0);
        state.unsynced.push(Change::SetLen(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.call()?;
        if state.gate == Gate::Shut {
            state.gate = Gate::Held;
            self.shared.gate_moved.notify_all();
            state = self
                .shared
                .gate_moved
                .wait_while(state, |state| state.gate == Gate::Held)
                .unwrap();
        }
        state.syncs += 1;
        state.unsynced.clear();
        state.kept = state.seen.clone();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.call()?;
        let offset = usize::try_from(offset).unwrap();
        if let Some((capacity, Notices::Bytes)) = state.capacity
            && offset + data.len() > capacity
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match state.seen.get_mut(offset..offset + data.len()) {
            Some(place) => place.copy_from_slice(data),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        state.unsynced.push(Change::Write {
            offset,
            bytes: data.to_vec(),
        });
        Ok(())
    }
}
