//! The journal: what a group changed, as one value under the group's number.
//!
//! ```text
//!  form (1)  checksum of all that follows (8)  position (8)  rows
//!  row:      table (1)  length of the key (4)  length of the value (4)  key  value
//! ```
//!
//! The highest bit of `table` says that the row is gone; its value is then empty. A journal is read
//! only when the file is opened. It holds the latest writes that were acknowledged, of any session,
//! and each value rests on the ones before: when one of them is damaged, no session can be trusted
//! to be whole, so the file is not opened.

use std::ops::RangeToInclusive;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use xxhash_rust::xxh3::xxh3_64;

use crate::fault::Fault;
use crate::layer::{Change, Layer};
use crate::table::TableName;

/// Group -> what it changed.
const JOURNAL: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("journal");

/// Rises when values are laid out in another way.
const FORM: u8 = 1;

/// Set in a row's table when the row is gone.
const GONE: u8 = 0x80;

/// Bytes before those that the checksum is of.
const HEAD_BYTES: usize = 1 + 8;

/// What the journal of a file holds.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// All that is not in the tables.
    pub(crate) rows: Layer,
    /// Groups that are in it.
    pub(crate) groups: usize,
    /// Number of the last one; 0 when there is none.
    pub(crate) last_group: u64,
    /// The last position that was given out by then.
    pub(crate) position: u64,
}

/// Writes a group's rows.
pub(crate) fn write(
    transaction: &WriteTransaction,
    group: u64,
    position: u64,
    rows: &[(TableName, &Bytes, &Change)],
) -> Result<(), Fault> {
    let value = encode(position, rows);
    let mut journal = transaction.open_table(JOURNAL)?;
    journal.insert(group, value.as_slice())?;
    Ok(())
}

/// Removes groups whose rows are in the tables.
pub(crate) fn clear(
    transaction: &WriteTransaction,
    groups: RangeToInclusive<u64>,
) -> Result<(), Fault> {
    let mut journal = transaction.open_table(JOURNAL)?;
    journal.retain_in(groups, |_, _| false)?;
    Ok(())
}

/// Reads all groups, in their order.
pub(crate) fn replay(transaction: &ReadTransaction) -> Result<Replayed, Fault> {
    let mut replayed = Replayed::default();
    let journal = match transaction.open_table(JOURNAL) {
        Ok(journal) => journal,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(replayed),
        Err(error) => return Err(error.into()),
    };
    for entry in ReadableTable::range::<u64>(&journal, ..)? {
        let (group, value) = entry?;
        let group = group.value();
        let position = decode(value.value(), &mut replayed.rows).ok_or_else(|| damaged(group))?;
        replayed.position = replayed.position.max(position);
        replayed.last_group = group;
        replayed.groups += 1;
    }
    Ok(replayed)
}

fn damaged(group: u64) -> Fault {
    Fault::Corrupt(format!(
        "group {group} of its journal is not what was written; the journal holds the latest \
         acknowledged writes of all sessions, and without this group none of those that follow it \
         can be applied"
    ))
}

fn encode(position: u64, rows: &[(TableName, &Bytes, &Change)]) -> Vec<u8> {
    let length: usize = rows
        .iter()
        .map(|(_, key, change)| 9 + key.len() + change.as_ref().map_or(0, Bytes::len))
        .sum();
    let mut value = Vec::with_capacity(HEAD_BYTES + 8 + length);
    value.push(FORM);
    value.extend_from_slice(&[0; 8]);
    value.extend_from_slice(&position.to_be_bytes());
    for (name, key, change) in rows {
        let (gone, content) = match change {
            Some(content) => (0, content.as_ref()),
            None => (GONE, [].as_slice()),
        };
        value.push(name.code() | gone);
        // Keys are short, and no operation writes a row as long as this can say.
        value.extend_from_slice(&(key.len() as u32).to_be_bytes());
        value.extend_from_slice(&(content.len() as u32).to_be_bytes());
        value.extend_from_slice(key);
        value.extend_from_slice(content);
    }
    if let Some((head, rest)) = value.split_at_mut_checked(HEAD_BYTES)
        && let Some(place) = head.last_chunk_mut::<8>()
    {
        *place = xxh3_64(rest).to_be_bytes();
    }
    value
}

/// Adds a group's rows to those before; tells its position.
fn decode(value: &[u8], rows: &mut Layer) -> Option<u64> {
    let (&form, value) = value.split_first()?;
    let (checksum, value) = value.split_first_chunk::<8>()?;
    if form != FORM || u64::from_be_bytes(*checksum) != xxh3_64(value) {
        return None;
    }
    let (position, mut rest) = value.split_first_chunk::<8>()?;
    while let Some((&table, row)) = rest.split_first() {
        let name = TableName::of_code(table & !GONE)?;
        let (key_bytes, row) = row.split_first_chunk::<4>()?;
        let (value_bytes, row) = row.split_first_chunk::<4>()?;
        let (key, row) = row.split_at_checked(length(*key_bytes)?)?;
        let (content, row) = row.split_at_checked(length(*value_bytes)?)?;
        // Copied, so that one row that is held long does not hold its whole group.
        let change = (table & GONE == 0).then(|| Bytes::copy_from_slice(content));
        rows.set(name, Bytes::copy_from_slice(key), change);
        rest = row;
    }
    Some(u64::from_be_bytes(*position))
}

fn length(bytes: [u8; 4]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Rows = Vec<(usize, Vec<u8>, Option<Vec<u8>>)>;

    fn layer(rows: &Rows) -> Layer {
        let mut layer = Layer::default();
        for (table, key, change) in rows {
            let name = TableName::ALL[*table];
            let change = change.clone().map(Bytes::from);
            layer.set(name, Bytes::from(key.clone()), change);
        }
        layer
    }

    fn listed(layer: &Layer) -> Vec<(TableName, Bytes, Change)> {
        layer
            .iter()
            .map(|(name, key, change)| (name, key.clone(), change.clone()))
            .collect()
    }

    fn some_rows() -> impl Strategy<Value = Rows> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
        let row = (0usize..8, bytes(), proptest::option::of(bytes()));
        proptest::collection::vec(row, 0..20)
    }

    proptest! {
        #[test]
        fn a_group_is_read_as_it_was_written(rows in some_rows(), position in any::<u64>()) {
            let written = layer(&rows);
            let rows: Vec<_> = written.iter().collect();
            let mut read = Layer::default();
            prop_assert_eq!(decode(&encode(position, &rows), &mut read), Some(position));
            prop_assert_eq!(listed(&read), listed(&written));
        }

        #[test]
        fn a_group_with_a_changed_byte_is_refused(
            rows in some_rows(),
            at in any::<prop::sample::Index>(),
            change in 1u8..,
        ) {
            let written = layer(&rows);
            let rows: Vec<_> = written.iter().collect();
            let mut value = encode(7, &rows);
            let at = at.index(value.len());
            value[at] ^= change;
            prop_assert_eq!(decode(&value, &mut Layer::default()), None);
        }

        #[test]
        fn reading_any_bytes_is_safe(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            decode(&value, &mut Layer::default());
        }
    }
}
