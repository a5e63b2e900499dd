//! Where calls wait for their places.

use std::sync::atomic::{AtomicU64, Ordering};

/// Names the line in which calls wait for one of a bounded number of places: of one tool, or of all
/// tools of one server. Two lines never have the same name in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(u64);

impl Default for Line {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
