//! The tables of the file, and reads of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};

use crate::fault::Fault;
use crate::key::KeyRange;

/// Version of the layout of all rows; a file of another is refused.
pub(crate) const FORMAT: u64 = 1;

/// Numbers of the file as a whole, see [`Number`].
const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");

/// A table that a transaction may write.
pub(crate) type OpenTable<'txn> = redb::Table<'txn, &'static [u8], &'static [u8]>;

/// A table of rows, keys and values both bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TableName {
    /// session, tail -> Record.
    Log,
    /// session, mail seq -> letter.
    Mail,
    /// session, epoch -> when.
    Timers,
    /// when, session, epoch -> nothing.
    Due,
    /// node, session -> entry.
    Active,
    /// session -> entry.
    Directory,
    /// session, hash, piece -> bytes.
    Blobs,
    /// session, piece -> bytes.
    Snapshots,
}

impl TableName {
    /// All of them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Log,
        Self::Mail,
        Self::Timers,
        Self::Due,
        Self::Active,
        Self::Directory,
        Self::Blobs,
        Self::Snapshots,
    ];

    fn definition(self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(match self {
            Self::Log => "log",
            Self::Mail => "mail",
            Self::Timers => "timers",
            Self::Due => "due",
            Self::Active => "active",
            Self::Directory => "directory",
            Self::Blobs => "blobs",
            Self::Snapshots => "snapshots",
        })
    }
}

/// A number of the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// [`FORMAT`] of the file.
    Format,
    /// The last position of a letter or version of an index entry that was given out.
    Position,
    /// How many groups were committed; tells after a failed commit whether it landed.
    Groups,
}

impl Number {
    fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Position => "position",
            Self::Groups => "groups",
        }
    }
}

/// Reads a number of the file; `None`: it was never written.
pub(crate) fn number(transaction: &ReadTransaction, which: Number) -> Result<Option<u64>, Fault> {
    match transaction.open_table(META) {
        Ok(table) => Ok(ReadableTable::get(&table, which.name())?.map(|value| value.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes numbers of the file.
pub(crate) fn set_numbers(
    transaction: &WriteTransaction,
    numbers: &[(Number, u64)],
) -> Result<(), Fault> {
    let mut table = transaction.open_table(META)?;
    for (which, value) in numbers {
        table.insert(which.name(), value)?;
    }
    Ok(())
}

/// Makes all tables.
pub(crate) fn create_all(transaction: &WriteTransaction) -> Result<(), Fault> {
    for name in TableName::ALL {
        transaction.open_table(name.definition())?;
    }
    Ok(())
}

/// Opens a table to read.
pub(crate) fn open(
    transaction: &ReadTransaction,
    name: TableName,
) -> Result<redb::ReadOnlyTable<&'static [u8], &'static [u8]>, Fault> {
    Ok(transaction.open_table(name.definition())?)
}

/// The tables that one write transaction touches, each opened once.
pub(crate) struct OpenTables<'txn> {
    transaction: &'txn WriteTransaction,
    tables: BTreeMap<TableName, OpenTable<'txn>>,
}

impl<'txn> OpenTables<'txn> {
    /// None is open yet.
    pub(crate) fn new(transaction: &'txn WriteTransaction) -> Self {
        Self {
            transaction,
            tables: BTreeMap::new(),
        }
    }

    /// The table, opened when it is the first time.
    pub(crate) fn get(&mut self, name: TableName) -> Result<&mut OpenTable<'txn>, Fault> {
        match self.tables.entry(name) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                Ok(entry.insert(self.transaction.open_table(name.definition())?))
            }
        }
    }
}

/// Some rows, in order, and where to go on.
pub(crate) struct Rows {
    /// Keys and values.
    pub(crate) rows: Vec<(Vec<u8>, Bytes)>,
    /// What was not read, because enough bytes were.
    pub(crate) rest: Option<KeyRange>,
}

/// Reads the rows of a range in order: at most `limit`, and none after `bytes_max` bytes.
pub(crate) fn scan(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    range: &KeyRange,
    limit: usize,
    bytes_max: usize,
) -> Result<Rows, Fault> {
    let mut rows = Vec::new();
    let mut bytes = 0usize;
    if range.first >= range.end {
        return Ok(Rows { rows, rest: None });
    }
    for row in table.range::<&[u8]>(range.first.as_slice()..range.end.as_slice())? {
        if rows.len() >= limit {
            break;
        }
        let (key, value) = row?;
        if bytes >= bytes_max {
            let rest = KeyRange {
                first: key.value().to_vec(),
                end: range.end.clone(),
            };
            return Ok(Rows {
                rows,
                rest: Some(rest),
            });
        }
        bytes = bytes.saturating_add(value.value().len());
        rows.push((key.value().to_vec(), Bytes::copy_from_slice(value.value())));
    }
    Ok(Rows { rows, rest: None })
}

/// Removes rows from the beginning of a range; tells whether it stopped at `limit`.
pub(crate) fn remove_some(
    table: &mut OpenTable<'_>,
    range: &KeyRange,
    limit: usize,
) -> Result<Removed, Fault> {
    if range.first >= range.end {
        return Ok(Removed::default());
    }
    let mut removed = Removed::default();
    let bounds = range.first.as_slice()..range.end.as_slice();
    let mut rows = table.extract_from_if::<&[u8], _>(bounds, |_, _| true)?;
    for row in rows.by_ref().take(limit) {
        row?;
        removed.rows += 1;
    }
    // Closing tells of a removal that failed; dropping would not.
    rows.close()?;
    removed.stopped = removed.rows == limit;
    Ok(removed)
}

/// What [`remove_some`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Removed {
    /// How many rows are gone.
    pub(crate) rows: usize,
    /// Whether more may be left.
    pub(crate) stopped: bool,
}
