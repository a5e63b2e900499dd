//! The bytes below the database, watched.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// Opens the bytes anew: at the start, and again after the disk was full.
pub type Source = Box<dyn Fn() -> io::Result<Box<dyn StorageBackend>> + Send + Sync>;

/// The bytes of a file.
pub(crate) fn file_source(path: PathBuf) -> Source {
    Box::new(move || {
        let backend = FileBackend::new(open_file(&path)?).map_err(io::Error::other)?;
        Ok(Box::new(backend) as Box<dyn StorageBackend>)
    })
}

fn open_file(path: &PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// What was seen of the bytes since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Calls that asked the disk to keep what was written.
    pub(crate) fsyncs: AtomicU64,
    /// Bytes written.
    pub(crate) written_bytes: AtomicU64,
    /// See [`Self::length_bytes`].
    length_bytes: AtomicU64,
    /// An fsync failed: what it should have kept may be there, or not, now and later.
    sync_failed: AtomicBool,
    /// The disk was full.
    full: AtomicBool,
    /// Something else failed.
    other_failed: AtomicBool,
}

impl Seen {
    /// Whether a failure since [`Self::forget`] means only that there was no room: nothing that
    /// the disk was asked to keep is in doubt.
    pub(crate) fn only_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
            && !self.sync_failed.load(Ordering::Acquire)
            && !self.other_failed.load(Ordering::Acquire)
    }

    /// The length of the file.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.length_bytes.load(Ordering::Relaxed)
    }

    /// Forgets failures, before something is tried.
    pub(crate) fn forget(&self) {
        self.full.store(false, Ordering::Release);
        self.other_failed.store(false, Ordering::Release);
        self.sync_failed.store(false, Ordering::Release);
    }
}

/// Storage that notes what it is asked and how it fails.
#[derive(Debug)]
pub(crate) struct Watched {
    below: Box<dyn StorageBackend>,
    seen: Arc<Seen>,
}

impl Watched {
    /// Watches `below`.
    pub(crate) fn new(below: Box<dyn StorageBackend>, seen: Arc<Seen>) -> io::Result<Self> {
        seen.length_bytes.store(below.len()?, Ordering::Relaxed);
        Ok(Self { below, seen })
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let flag = if is_full(error) {
                &self.seen.full
            } else {
                &self.seen.other_failed
            };
            flag.store(true, Ordering::Release);
        }
        result
    }
}

/// Whether there was no room: on the disk, in the quota, in a file of this system.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

impl StorageBackend for Watched {
    fn len(&self) -> Result<u64, io::Error> {
        self.below.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.note(self.below.read(offset, out))
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        self.note(self.below.set_len(length))?;
        self.seen.length_bytes.store(length, Ordering::Relaxed);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.seen.fsyncs.fetch_add(1, Ordering::Relaxed);
        let result = self.below.sync_data();
        if result.is_err() {
            self.seen.sync_failed.store(true, Ordering::Release);
        }
        result
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.seen
            .written_bytes
            .fetch_add(data.len() as u64, Ordering::Relaxed);
        self.note(self.below.write(offset, data))
    }

    fn close(&self) -> Result<(), io::Error> {
        self.below.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.below.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.below.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.below.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.below.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.below.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.below.query_lock_range(start, end)
    }
}
