//! One group of the writer: the operations of many sessions that share its fsync.

use std::collections::HashMap;

use bytes::Bytes;
use steadfast_core::id::SessionKey;

use crate::engine::Shared;
use crate::entries::WaitingEntries;
use crate::fault::Fault;
use crate::key::KeyRange;
use crate::layer::Layer;
use crate::log::{Last, Tails};
use crate::operation::LaneCounts;
use crate::sight::{Held, Sight};
use crate::table::TableName;
use crate::view::View;

/// What an operation works with.
pub(crate) struct Group<'run> {
    /// All that was committed before.
    view: &'run View,
    /// What the group changed.
    changes: Layer,
    shared: &'run Shared,
    /// Last Records, as they were before.
    tails: &'run Tails,
    /// Those that the group appended.
    appended: HashMap<SessionKey, Last>,
    /// Letters of the sessions that this group touched, as it leaves them.
    counts: HashMap<SessionKey, LaneCounts>,
}

impl<'run> Group<'run> {
    /// A group on what is committed.
    pub(crate) fn new(view: &'run View, shared: &'run Shared, tails: &'run Tails) -> Self {
        Self {
            view,
            changes: Layer::default(),
            shared,
            tails,
            appended: HashMap::new(),
            counts: HashMap::new(),
        }
    }

    /// All rows as the group leaves them so far.
    pub(crate) fn sight(&self) -> Sight<'_> {
        self.view.sight_below(Some(&self.changes))
    }

    /// A row.
    pub(crate) fn get(&self, name: TableName, key: &[u8]) -> Result<Option<Held>, Fault> {
        self.sight().get(name, key)
    }

    /// Writes a row.
    pub(crate) fn put(&mut self, name: TableName, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.changes.set(name, key.into(), Some(value.into()));
    }

    /// Removes a row, which may not be there.
    pub(crate) fn remove(&mut self, name: TableName, key: impl Into<Bytes>) {
        self.changes.set(name, key.into(), None);
    }

    /// Removes rows from the beginning of a range; tells whether it stopped at `limit`.
    pub(crate) fn remove_some(
        &mut self,
        name: TableName,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Removed, Fault> {
        let rows = self.sight().rows(name, range)?.take(limit);
        let keys = rows
            .map(|row| Ok(row?.key.into_bytes()))
            .collect::<Result<Vec<_>, Fault>>()?;
        let removed = Removed {
            rows: keys.len(),
            stopped: keys.len() == limit,
        };
        for key in keys {
            self.remove(name, key);
        }
        Ok(removed)
    }

    /// The last Record of a session, if it is known without looking.
    pub(crate) fn last_record(&self, session: &SessionKey) -> Option<&Last> {
        let appended = self.appended.get(session);
        appended.or_else(|| self.tails.of(session))
    }

    /// Notes a Record that is put.
    pub(crate) fn note_last_record(&mut self, session: &SessionKey, last: Last) {
        self.appended.insert(session.clone(), last);
    }

    /// The letters of a session as they stand in this group.
    pub(crate) fn letters(&mut self, session: &SessionKey) -> &mut LaneCounts {
        let committed = &self.shared.letters;
        self.counts
            .entry(session.clone())
            .or_insert_with(|| committed.of(session))
    }

    /// Entries of the index that wait to be written.
    pub(crate) fn entries(&self) -> &'run WaitingEntries {
        &self.shared.entries
    }

    /// A number above all that were given out, in this file, before.
    pub(crate) fn next_position(&self) -> u64 {
        self.shared.next_position()
    }

    /// What the group changed, and the last Records among it.
    pub(crate) fn into_changes(self) -> (Layer, HashMap<SessionKey, Last>) {
        (self.changes, self.appended)
    }
}

/// What [`Group::remove_some`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Removed {
    /// How many rows are gone.
    pub(crate) rows: usize,
    /// Whether more may be left.
    pub(crate) stopped: bool,
}
