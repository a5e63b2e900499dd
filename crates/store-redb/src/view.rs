//! What readers see: all that is committed at one moment.

use std::sync::{Arc, OnceLock};

use redb::{ReadOnlyTable, ReadTransaction};

use crate::fault::Fault;
use crate::layer::Layer;
use crate::sight::Sight;
use crate::table::{self, PerTable, TableName};

type Slice = &'static [u8];

/// The tables of the file as one commit left them.
pub(crate) struct Base {
    /// None once the file is closed.
    transaction: Option<ReadTransaction>,
    /// Opened when they are first asked for.
    tables: PerTable<OnceLock<ReadOnlyTable<Slice, Slice>>>,
}

impl Base {
    /// The tables as `transaction` sees them.
    pub(crate) fn new(transaction: ReadTransaction) -> Self {
        Self {
            transaction: Some(transaction),
            tables: PerTable::default(),
        }
    }

    /// Those of a file that is closed.
    pub(crate) fn none() -> Self {
        Self {
            transaction: None,
            tables: PerTable::default(),
        }
    }

    /// A table.
    pub(crate) fn table(&self, name: TableName) -> Result<&ReadOnlyTable<Slice, Slice>, Fault> {
        let place = self.tables.of(name);
        if let Some(table) = place.get() {
            return Ok(table);
        }
        let Some(transaction) = &self.transaction else {
            return Err(Fault::NotOpen("the file is closed".into()));
        };
        let table = table::open(transaction, name)?;
        Ok(place.get_or_init(|| table))
    }
}

/// One moment: the tables of the file, and above them what is in memory.
///
/// The three layers and the tables are published together and never changed. The tables may already
/// hold rows of [`Self::moving`]: they are the same there, so it does not matter who is asked.
#[derive(Clone)]
pub(crate) struct View {
    /// Acknowledged, and not yet in the file.
    pub(crate) waiting: Arc<Layer>,
    /// In the journal.
    pub(crate) journaled: Arc<Layer>,
    /// In the journal, older, on its way into the tables.
    pub(crate) moving: Option<Arc<Layer>>,
    /// The tables.
    pub(crate) base: Arc<Base>,
}

impl View {
    /// All rows.
    pub(crate) fn sight(&self) -> Sight<'_> {
        self.sight_below(None)
    }

    /// All rows, and above them those of a group that is not committed.
    pub(crate) fn sight_below<'a>(&'a self, group: Option<&'a Layer>) -> Sight<'a> {
        let layers = [
            group,
            Some(&*self.waiting),
            Some(&*self.journaled),
            self.moving.as_deref(),
        ];
        Sight::new(layers, &self.base)
    }

    /// Rows in memory, and about how many bytes they take.
    pub(crate) fn held(&self) -> (usize, usize) {
        let moving = self.moving.as_deref();
        [Some(&*self.waiting), Some(&*self.journaled), moving]
            .into_iter()
            .flatten()
            .fold((0, 0), |(rows, bytes), layer| {
                (rows + layer.rows(), bytes + layer.bytes())
            })
    }
}
