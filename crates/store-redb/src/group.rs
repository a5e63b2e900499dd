//! One transaction of the writer: the operations of many sessions that share its fsync.

use std::collections::HashMap;

use redb::WriteTransaction;
use steadfast_core::id::SessionKey;

use crate::engine::Shared;
use crate::entries::WaitingEntries;
use crate::fault::Fault;
use crate::operation::LaneCounts;
use crate::table::{OpenTable, OpenTables, TableName};

/// What an operation works with.
pub(crate) struct Group<'txn> {
    tables: OpenTables<'txn>,
    shared: &'txn Shared,
    /// Letters of the sessions that this group touched, as it leaves them.
    counts: HashMap<SessionKey, LaneCounts>,
}

impl<'txn> Group<'txn> {
    /// A group in `transaction`.
    pub(crate) fn new(transaction: &'txn WriteTransaction, shared: &'txn Shared) -> Self {
        Self {
            tables: OpenTables::new(transaction),
            shared,
            counts: HashMap::new(),
        }
    }

    /// A table.
    pub(crate) fn table(&mut self, name: TableName) -> Result<&mut OpenTable<'txn>, Fault> {
        self.tables.get(name)
    }

    /// The letters of a session as they stand in this transaction.
    pub(crate) fn letters(&mut self, session: &SessionKey) -> &mut LaneCounts {
        let committed = &self.shared.letters;
        self.counts
            .entry(session.clone())
            .or_insert_with(|| committed.of(session))
    }

    /// Entries of the index that wait to be written.
    pub(crate) fn entries(&self) -> &'txn WaitingEntries {
        &self.shared.entries
    }

    /// A number above all that were given out, in this file, before.
    pub(crate) fn next_position(&self) -> u64 {
        self.shared.next_position()
    }
}
