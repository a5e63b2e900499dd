//! What the store did so far, for metrics and benchmarks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the store was opened, and sizes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Operations answered, of all ports.
    pub operations: u64,
    /// Records appended.
    pub appends: u64,
    /// Their bytes.
    pub appended_bytes: u64,
    /// Appends that lost against another.
    pub conflicts: u64,
    /// Transactions committed, each for all operations that waited.
    pub groups: u64,
    /// Rows in memory now that are not in their tables yet.
    pub held_rows: u64,
    /// About how much memory they take.
    pub held_bytes: u64,
    /// Calls that asked the disk to keep what was written.
    pub fsyncs: u64,
    /// Bytes written to the file.
    pub written_bytes: u64,
    /// Length of the file now.
    pub file_bytes: u64,
    /// Operations that wait now or are being executed.
    pub waiting: u64,
}

/// The counts behind [`Stats`] that are not taken elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// See [`Stats::operations`].
    pub(crate) operations: AtomicU64,
    /// See [`Stats::appends`].
    pub(crate) appends: AtomicU64,
    /// See [`Stats::appended_bytes`].
    pub(crate) appended_bytes: AtomicU64,
    /// See [`Stats::conflicts`].
    pub(crate) conflicts: AtomicU64,
    /// See [`Stats::groups`].
    pub(crate) groups: AtomicU64,
    /// See [`Stats::held_rows`].
    pub(crate) held_rows: AtomicU64,
    /// See [`Stats::held_bytes`].
    pub(crate) held_bytes: AtomicU64,
}

/// Adds to a count.
pub(crate) fn add(count: &AtomicU64, number: usize) {
    count.fetch_add(number as u64, Ordering::Relaxed);
}
