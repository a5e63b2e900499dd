//! Rows that are held in memory, above those of the file's tables.
//!
//! A layer is an ordered map for each table. Copies of it share what is equal, so a reader keeps the
//! layer of its moment while the writer goes on with another.

use std::ops::Bound;

use bytes::Bytes;
use imbl::OrdMap;
use imbl::ordmap::RangedIter;

use crate::key::KeyRange;
use crate::table::{PerTable, TableName};

/// Memory for a row beside its key and value: places in the map, two counted buffers.
const ROW_BYTES: usize = 160;

/// What a row came to: its value, or that it is gone.
pub(crate) type Change = Option<Bytes>;

/// Changes of a range of keys, in order.
pub(crate) type Changes<'a> = RangedIter<'a, Bytes, Change, imbl::shared_ptr::DefaultSharedPtr>;

/// Changes of rows; one for each key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    tables: PerTable<OrdMap<Bytes, Change>>,
    rows: usize,
    bytes: usize,
}

impl Layer {
    /// What became of a row; `None`: nothing is known of it here.
    pub(crate) fn get(&self, name: TableName, key: &[u8]) -> Option<&Change> {
        self.tables.of(name).get(key)
    }

    /// Whether something is known of a row.
    pub(crate) fn knows(&self, name: TableName, key: &[u8]) -> bool {
        self.tables.of(name).contains_key(key)
    }

    /// Notes what became of a row.
    pub(crate) fn set(&mut self, name: TableName, key: Bytes, change: Change) {
        self.rows += 1;
        self.bytes += ROW_BYTES + key.len() + length(&change);
        let key_bytes = key.len();
        if let Some(before) = self.tables.of_mut(name).insert(key, change) {
            self.rows -= 1;
            self.bytes -= ROW_BYTES + key_bytes + length(&before);
        }
    }

    /// Notes all of a later layer.
    pub(crate) fn add(&mut self, later: &Self) {
        for (name, key, change) in later.iter() {
            self.set(name, key.clone(), change.clone());
        }
    }

    /// What is known of a range of keys, in order.
    pub(crate) fn range(&self, name: TableName, range: &KeyRange) -> Changes<'_> {
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) =
            (Bound::Included(&range.first), Bound::Excluded(&range.end));
        self.tables.of(name).range::<_, [u8]>(bounds)
    }

    /// The last key of a range of which something is known.
    pub(crate) fn last(&self, name: TableName, range: &KeyRange) -> Option<(&Bytes, &Change)> {
        let (key, change) = self
            .tables
            .of(name)
            .get_prev::<[u8]>(&range.end)
            .filter(|(key, _)| ***key < *range.end)?;
        (**key >= *range.first).then_some((key, change))
    }

    /// What is known of a table's rows from `first` on, in order.
    pub(crate) fn from(&self, name: TableName, first: &[u8]) -> Changes<'_> {
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(first), Bound::Unbounded);
        self.tables.of(name).range::<_, [u8]>(bounds)
    }

    /// All, in the order of tables and keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TableName, &Bytes, &Change)> {
        TableName::ALL.into_iter().flat_map(|name| {
            let rows = self.tables.of(name).iter();
            rows.map(move |(key, change)| (name, key, change))
        })
    }

    /// How many rows something is known of.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// About how much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

fn length(change: &Change) -> usize {
    change.as_ref().map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_again_counts_once_and_a_copy_keeps_its_moment() {
        let mut layer = Layer::default();
        layer.set(
            TableName::Log,
            Bytes::from_static(b"a"),
            Some(Bytes::from_static(b"12")),
        );
        let before = layer.clone();
        layer.set(TableName::Log, Bytes::from_static(b"a"), None);
        layer.set(TableName::Mail, Bytes::from_static(b"a"), None);
        assert_eq!((layer.rows(), layer.bytes()), (2, 2 * ROW_BYTES + 2));
        assert_eq!((before.rows(), before.bytes()), (1, ROW_BYTES + 3));
        assert_eq!(layer.get(TableName::Log, b"a"), Some(&None));
        assert_eq!(
            before.get(TableName::Log, b"a"),
            Some(&Some(Bytes::from_static(b"12")))
        );
        assert!(!before.knows(TableName::Mail, b"a"));
    }
}
