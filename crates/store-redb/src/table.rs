//! The tables of the file, and reads of them.

use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};

use crate::fault::Fault;

/// Version of the layout of all rows; a file of another is refused, but for [`FORMAT_BEFORE`].
pub(crate) const FORMAT: u64 = 2;

/// The layout without a journal: read as one whose journal is empty, and raised by the first write
/// to the journal, which a release of that time would pass over.
pub(crate) const FORMAT_BEFORE: u64 = 1;

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

impl TableName {
    /// What stands for it in the journal; never changes.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Log => 1,
            Self::Mail => 2,
            Self::Timers => 3,
            Self::Due => 4,
            Self::Active => 5,
            Self::Directory => 6,
            Self::Blobs => 7,
            Self::Snapshots => 8,
        }
    }

    /// The table that a code stands for.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.code() == code)
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
    tables: PerTable<Option<OpenTable<'txn>>>,
}

impl<'txn> OpenTables<'txn> {
    /// None is open yet.
    pub(crate) fn new(transaction: &'txn WriteTransaction) -> Self {
        Self {
            transaction,
            tables: PerTable::default(),
        }
    }

    /// The table, opened when it is the first time.
    pub(crate) fn get(&mut self, name: TableName) -> Result<&mut OpenTable<'txn>, Fault> {
        let place = self.tables.of_mut(name);
        match place {
            Some(table) => Ok(table),
            None => Ok(place.insert(self.transaction.open_table(name.definition())?)),
        }
    }
}

/// One of something for each table.
#[derive(Debug, Clone, Default)]
pub(crate) struct PerTable<T>([T; 8]);

impl<T> PerTable<T> {
    /// The one of a table.
    pub(crate) fn of(&self, name: TableName) -> &T {
        let [log, mail, timers, due, active, directory, blobs, snapshots] = &self.0;
        match name {
            TableName::Log => log,
            TableName::Mail => mail,
            TableName::Timers => timers,
            TableName::Due => due,
            TableName::Active => active,
            TableName::Directory => directory,
            TableName::Blobs => blobs,
            TableName::Snapshots => snapshots,
        }
    }

    /// The one of a table, to change it.
    pub(crate) fn of_mut(&mut self, name: TableName) -> &mut T {
        let [log, mail, timers, due, active, directory, blobs, snapshots] = &mut self.0;
        match name {
            TableName::Log => log,
            TableName::Mail => mail,
            TableName::Timers => timers,
            TableName::Due => due,
            TableName::Active => active,
            TableName::Directory => directory,
            TableName::Blobs => blobs,
            TableName::Snapshots => snapshots,
        }
    }
}
