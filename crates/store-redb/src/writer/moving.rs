//! Moving rows from the journal into their tables.
//!
//! When the journal holds enough, all it holds becomes one layer that is moved: sorted, a slice with
//! each commit, so that no group waits long. The layer goes on hiding the tables until it is in
//! them whole; only then its groups leave the journal. So a crash at any point finds the journal as
//! it was, and moves again what it moved before, to the same end.

use std::ops::RangeToInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Writer;
use crate::fault::Fault;
use crate::layer::{Change, Layer};
use crate::table::{OpenTables, TableName};

/// One row or group in the journal counts at least so much against `Options::journal_bytes`, however
/// small it is: moving and reading them takes time.
const JOURNALED_ROW_BYTES: usize = 512;
const JOURNALED_GROUP_BYTES: usize = 4_096;

/// While the disk is full, the journal takes what there is still room for, unmoved, up to this many
/// times of what begins to be moved else.
const HELD_FACTOR: usize = 4;

/// How long nothing is moved after the disk was full.
const FULL_WAIT: Duration = Duration::from_secs(1);

/// What a commit moves at least, as parts of a layer, and for each row or byte that it journals: more
/// than comes in, so that a layer is moved before the next one waits.
const SLICE_ROWS_PART: usize = 64;
const SLICE_BYTES_PART: usize = 16;
const SLICE_FACTOR: usize = 4;

/// Rows that their tables do not take, in bytes, above which the file is given up.
const STUCK_BYTES_MAX: usize = 1024 * 1024;

/// A layer on its way into the tables.
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// Its groups in the journal.
    through: u64,
    /// The first row that is not moved.
    next: Option<(TableName, Bytes)>,
    /// The row that is being moved.
    trying: Option<(TableName, Bytes, Change)>,
    /// Rows that their tables did not take, because a page there is damaged.
    stuck: Layer,
    /// The next commit moves nothing.
    pub(super) is_held: bool,
    /// Nothing is moved before, because the disk was full.
    not_before: Option<Instant>,
    /// A commit moves all that there is.
    is_last: bool,
}

/// What a commit moved.
#[derive(Debug)]
pub(super) struct Slice {
    /// The first row that is left; `None`: all is moved.
    pub(super) next: Option<(TableName, Bytes)>,
}

impl Writer {
    /// Has the journal moved, if it holds enough. All of it is synced.
    pub(super) fn begin_to_move(&mut self) {
        let journaled = &self.view.journaled;
        let enough = self.moving.is_last || self.is_journal_full();
        let is_early = self
            .moving
            .not_before
            .is_some_and(|time| Instant::now() < time);
        if is_early && journaled.bytes() < self.held_bytes_max() {
            return;
        }
        if !enough || self.view.moving.is_some() || journaled.is_empty() {
            return;
        }
        self.moving.through = self.groups;
        self.moving.next = Some((TableName::Log, Bytes::new()));
        self.moving.stuck = Layer::default();
        self.view.moving = Some(std::mem::take(&mut self.view.journaled));
        self.journaled_groups = 0;
    }

    /// Writes the next rows of the layer that is moved, but for those that `batch`, which is written
    /// with them, or the journal knows better.
    pub(super) fn move_slice(
        &mut self,
        tables: &mut OpenTables<'_>,
        batch: &Layer,
    ) -> Result<Slice, Fault> {
        let (mut rows_left, mut bytes_left) = self.slice_size(batch);
        let Some(layer) = self.view.moving.clone() else {
            return Ok(Slice { next: None });
        };
        let Some((name, first)) = self.moving.next.clone() else {
            return Ok(Slice { next: None });
        };
        for (name, first) in from(name, first) {
            for (key, change) in layer.from(name, &first) {
                if rows_left == 0 || bytes_left == 0 {
                    let next = Some((name, key.clone()));
                    return Ok(Slice { next });
                }
                let is_known = batch.knows(name, key) || self.view.journaled.knows(name, key);
                if is_known || self.moving.stuck.knows(name, key) {
                    continue;
                }
                self.moving.trying = Some((name, key.clone(), change.clone()));
                let table = tables.get(name)?;
                match change {
                    Some(value) => drop(table.insert(key.as_ref(), value.as_ref())?),
                    None => drop(table.remove(key.as_ref())?),
                }
                rows_left -= 1;
                let bytes = key.len() + change.as_ref().map_or(0, Bytes::len);
                bytes_left = bytes_left.saturating_sub(bytes);
            }
        }
        Ok(Slice { next: None })
    }

    fn slice_size(&self, batch: &Layer) -> (usize, usize) {
        // The next layer must not wait for this one.
        if self.moving.is_last || self.is_journal_full() {
            return (usize::MAX, usize::MAX);
        }
        let bytes = self.options.journal_bytes;
        let rows_min = (bytes / JOURNALED_ROW_BYTES / SLICE_ROWS_PART).max(1);
        (
            rows_min.max(batch.rows() * SLICE_FACTOR),
            (bytes / SLICE_BYTES_PART).max(batch.bytes() * SLICE_FACTOR),
        )
    }

    fn is_journal_full(&self) -> bool {
        let journaled = &self.view.journaled;
        let rows_bytes = journaled.rows() * JOURNALED_ROW_BYTES;
        let groups_bytes = self.journaled_groups * JOURNALED_GROUP_BYTES;
        journaled.bytes().max(rows_bytes).max(groups_bytes) >= self.options.journal_bytes
    }

    fn held_bytes_max(&self) -> usize {
        self.options.journal_bytes * HELD_FACTOR
    }

    /// The groups of the layer that is moved.
    pub(super) fn moved_groups(&self) -> RangeToInclusive<u64> {
        ..=self.moving.through
    }

    /// Rows that must stay in the journal when their layer leaves it.
    pub(super) fn stuck_rows(&self, batch: &Layer) -> Layer {
        let mut left = Layer::default();
        for (name, key, change) in self.moving.stuck.iter() {
            if !batch.knows(name, key) && !self.view.journaled.knows(name, key) {
                left.set(name, key.clone(), change.clone());
            }
        }
        left
    }

    /// A commit that moved this is in the file.
    pub(super) fn moved(&mut self, slice: Slice) {
        self.moving.trying = None;
        self.moving.next = slice.next;
        if self.moving.next.is_none() {
            self.view.moving = None;
            self.moving.stuck = Layer::default();
        }
    }

    /// Passes over the row whose table did not take it: it stays in the journal. The next commit
    /// moves nothing, so that the group at hand is not held up. Tells whether that is bearable.
    pub(super) fn pass_over_stuck_row(&mut self) -> bool {
        let Some((name, key, change)) = self.moving.trying.take() else {
            return false;
        };
        tracing::error!(table = ?name, key = ?key, "a row cannot be moved: a page of its table is damaged");
        self.moving.stuck.set(name, key, change);
        self.moving.is_held = true;
        self.moving.stuck.bytes() <= STUCK_BYTES_MAX
    }

    /// Moves all, so that the next start finds an empty journal; it is no harm when that fails.
    pub(super) fn move_all(&mut self) {
        self.moving.is_last = true;
        // What is being moved, then what was journaled since.
        for _ in 0..2 {
            self.begin_to_move();
            if self.view.moving.is_none() || self.refusal().is_some() {
                return;
            }
            if let Err(failed) = self.attempt(&mut [], true) {
                tracing::warn!(
                    reason = failed.reason,
                    "the journal could not be emptied: it is read at the next start"
                );
                return;
            }
        }
    }

    /// Forgets what was being moved: the file was opened anew, and all is journaled again.
    pub(super) fn forget_moving(&mut self) {
        self.moving = Moving::default();
    }

    /// Whether the journal may take more although it cannot be moved, as the disk is full. Nothing is
    /// moved for a while then.
    pub(super) fn may_hold_more(&mut self) -> bool {
        self.moving.not_before = Some(Instant::now() + FULL_WAIT);
        self.view.journaled.bytes() < self.held_bytes_max()
    }

    /// The layers of a view in which nothing waits.
    pub(super) fn nothing_waits() -> Arc<Layer> {
        Arc::default()
    }
}

/// The tables from one on, each with the key to begin at.
fn from(name: TableName, first: Bytes) -> impl Iterator<Item = (TableName, Bytes)> {
    let mut first = Some(first);
    TableName::ALL
        .into_iter()
        .filter(move |table| *table >= name)
        .map(move |table| (table, first.take().unwrap_or_default()))
}
