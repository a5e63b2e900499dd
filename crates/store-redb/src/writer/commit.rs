//! Running a group's operations, and writing what they changed.

use std::sync::Arc;

use bytes::Bytes;
use redb::{Durability, ReadableDatabase};

use super::Writer;
use super::execute::{Committed, Stage};
use crate::fault::Fault;
use crate::group::Group;
use crate::journal;
use crate::layer::{Change, Layer};
use crate::operation::{Operation, Promise, Rows};
use crate::table::{self, FORMAT, Number, OpenTables, TableName};
use crate::view::Base;

/// What may wait in memory for the next commit; more is committed at once.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Values from this length on go to their table at once: they would be written twice.
const STRAIGHT_BYTES_MIN: usize = 16 * 1024;

/// A group whose rows take more goes to the tables at once, as far as it may: its own work is what
/// it costs, and the journal's values stay small.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Changes in the order of tables and keys.
type Sorted<'a> = Vec<(TableName, &'a Bytes, &'a Change)>;

impl Writer {
    /// Runs a group; tells how far it was brought.
    pub(super) fn transact(
        &mut self,
        operations: &mut [Operation],
        must_sync: bool,
        stage: &mut Stage,
    ) -> Result<Committed, Fault> {
        let mut changed = false;
        let mut sync = must_sync;
        let mut group = Group::new(&self.view, &self.shared, &self.tails);
        for operation in operations {
            if operation.run(&mut group)? == Rows::Changed {
                changed = true;
                sync |= operation.promise == Promise::Kept && self.options.require_fsync;
            }
        }
        let (changes, appended) = group.into_changes();
        if !changed && !must_sync {
            return Ok(Committed::Untouched);
        }
        if !sync && self.view.waiting.bytes() + changes.bytes() <= WAITING_BYTES_MAX {
            Arc::make_mut(&mut self.view.waiting).add(&changes);
            self.shared.show(Some(self.view.clone()));
            self.tails.note(appended);
            return Ok(Committed::Seen);
        }
        self.commit(changes, stage)?;
        self.tails.note(appended);
        Ok(Committed::Kept)
    }

    /// Writes what waits and what a group changed, and moves a slice of what was journaled before.
    fn commit(&mut self, changes: Layer, stage: &mut Stage) -> Result<(), Fault> {
        let batch = self.with_waiting(changes);
        match self.database.clone() {
            Some(database) => self.commit_on(&database, &batch, stage),
            None => Err(Fault::NotOpen(self.shared.why_not_open())),
        }
    }

    fn commit_on(
        &mut self,
        database: &redb::Database,
        batch: &Layer,
        stage: &mut Stage,
    ) -> Result<(), Fault> {
        self.begin_to_move();
        let groups = self.groups.saturating_add(1);
        let mut transaction = database.begin_write()?;
        let mut tables = OpenTables::new(&transaction);
        let moves = self.view.moving.is_some() && !self.moving.is_held;
        let slice = if moves {
            *stage = Stage::Moving;
            let slice = self.move_slice(&mut tables, batch)?;
            *stage = Stage::Running;
            Some(slice)
        } else {
            None
        };
        let (straight, mut journaled) = self.divide(batch);
        *stage = Stage::Straight;
        for (name, key, change) in straight {
            if let Some(value) = change {
                tables.get(name)?.insert(key.as_ref(), value.as_ref())?;
            }
        }
        drop(tables);
        *stage = Stage::Running;
        let is_moved = slice.as_ref().is_some_and(|slice| slice.next.is_none());
        let stuck = if is_moved {
            *stage = Stage::Clearing;
            journal::clear(&transaction, self.moved_groups())?;
            *stage = Stage::Running;
            self.stuck_rows(batch)
        } else {
            Layer::default()
        };
        journaled.extend(stuck.iter());
        let position = self.shared.position();
        if !journaled.is_empty() {
            journal::write(&transaction, groups, position, &journaled)?;
        }
        if is_moved || journaled.is_empty() || self.format != FORMAT {
            let numbers = [
                (Number::Format, FORMAT),
                (Number::Position, position),
                (Number::Groups, groups),
            ];
            table::set_numbers(&transaction, &numbers)?;
        }
        transaction.set_durability(Durability::Immediate)?;
        // With it, opening after a crash takes milliseconds whatever the size, but each commit
        // syncs twice. Without it, opening reads the whole file once: fast while it is small.
        let length_bytes = self.shared.seen.length_bytes();
        transaction.set_quick_repair(length_bytes > self.options.check_bytes_max);
        *stage = Stage::Committing;
        transaction.commit()?;
        let base = Base::new(database.begin_read()?);

        self.groups = groups;
        self.format = FORMAT;
        self.view.base = Arc::new(base);
        self.view.waiting = Self::nothing_waits();
        if let Some(slice) = slice {
            self.moved(slice);
        }
        self.moving.is_held = false;
        self.goes_straight = true;
        if !journaled.is_empty() {
            self.journaled_groups += 1;
            let layer = Arc::make_mut(&mut self.view.journaled);
            for (name, key, change) in journaled {
                layer.set(name, key.clone(), change.clone());
            }
        }
        self.begin_to_move();
        self.shared.show(Some(self.view.clone()));
        Ok(())
    }

    fn with_waiting(&self, changes: Layer) -> Layer {
        if self.view.waiting.is_empty() {
            return changes;
        }
        let mut batch = Layer::clone(&self.view.waiting);
        batch.add(&changes);
        batch
    }

    /// Divides a batch: what goes to its table at once, and what goes to the journal.
    ///
    /// Only a row that the journal knows nothing of may pass it by: else an older change of it would
    /// hide it, or overwrite it later.
    fn divide<'a>(&self, batch: &'a Layer) -> (Sorted<'a>, Sorted<'a>) {
        let length_min = if batch.bytes() > BATCH_BYTES_MAX {
            0
        } else {
            STRAIGHT_BYTES_MIN
        };
        let is_journaled = |name, key: &[u8]| {
            let moving = self.view.moving.as_ref();
            self.view.journaled.knows(name, key)
                || moving.is_some_and(|layer| layer.knows(name, key))
        };
        batch.iter().partition(|(name, key, change)| {
            let length = change.as_ref().map(Bytes::len);
            self.goes_straight
                && length.is_some_and(|length| length >= length_min)
                && !is_journaled(*name, key)
        })
    }
}
