//! How the store is opened.

use std::time::Duration;

/// Settings of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether an acknowledgement waits for the disk. Without it, a crash of the process or of the
    /// machine may lose what was acknowledged in the last [`Self::sync_delay_ms`]; what is left is
    /// in order and whole.
    pub require_fsync: bool,
    /// How long something may stay unsynced that need not be synced before its acknowledgement. It
    /// mostly rides along with a group that is synced anyway; this is for quiet times.
    pub sync_delay_ms: u64,
    /// After how long an announcement of mail or of a due timer is made again, when whoever got it
    /// neither acknowledged it nor gave it back.
    pub silence_ms: u64,
    /// Memory for pages of the file.
    pub cache_bytes: usize,
    /// When rows that are in the journal take this much memory, they begin to be moved into their
    /// tables. Twice as much is held at most, and one group, and up to 4 MiB that wait for a commit;
    /// while the disk is full, four times as much.
    pub journal_bytes: usize,
    /// Up to this length of the file, a group costs one sync, and opening after a crash checks the
    /// whole file, about a second for each gigabyte. Above it, a group costs two syncs, and opening
    /// after a crash takes milliseconds.
    pub check_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            require_fsync: true,
            sync_delay_ms: 50,
            silence_ms: 10_000,
            cache_bytes: 64 * 1024 * 1024,
            journal_bytes: 4 * 1024 * 1024,
            check_bytes_max: 512 * 1024 * 1024,
        }
    }
}

impl Options {
    pub(crate) fn silence(&self) -> Duration {
        Duration::from_millis(self.silence_ms)
    }

    pub(crate) fn sync_delay(&self) -> Duration {
        Duration::from_millis(self.sync_delay_ms)
    }
}
