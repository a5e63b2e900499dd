//! One transaction of the writer: the operations of many sessions that share its fsync.

use std::collections::HashMap;

use redb::WriteTransaction;
use steadfast_core::id::SessionKey;

use crate::fault::Fault;
use crate::letters::Letters;
use crate::operation::LaneCounts;
use crate::table::{OpenTable, OpenTables, TableName};

/// What an operation works with.
pub(crate) struct Group<'txn> {
    tables: OpenTables<'txn>,
    letters: &'txn Letters,
    /// Letters of the sessions that this group touched, as it leaves them.
    counts: HashMap<SessionKey, LaneCounts>,
    position: u64,
}

impl<'txn> Group<'txn> {
    /// A group in `transaction`; positions go on after `position`.
    pub(crate) fn new(
        transaction: &'txn WriteTransaction,
        letters: &'txn Letters,
        position: u64,
    ) -> Self {
        Self {
            tables: OpenTables::new(transaction),
            letters,
            counts: HashMap::new(),
            position,
        }
    }

    /// A table.
    pub(crate) fn table(&mut self, name: TableName) -> Result<&mut OpenTable<'txn>, Fault> {
        self.tables.get(name)
    }

    /// The letters of a session as they stand in this transaction.
    pub(crate) fn letters(&mut self, session: &SessionKey) -> &mut LaneCounts {
        let committed = self.letters;
        self.counts
            .entry(session.clone())
            .or_insert_with(|| committed.of(session))
    }

    /// A number above all that were given out, in this file, before.
    pub(crate) fn next_position(&mut self) -> u64 {
        self.position = self.position.saturating_add(1);
        self.position
    }

    /// The last number given out.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }
}
