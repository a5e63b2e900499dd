//! What is seen of the rows: layers in memory above the tables of the file, as one.

use std::ops::Deref;

use bytes::Bytes;
use redb::AccessGuard;

use crate::fault::Fault;
use crate::key::KeyRange;
use crate::layer::{Change, Changes, Layer};
use crate::table::TableName;
use crate::view::Base;

/// Layers at most: of a group, acknowledged, journaled, being moved.
const LAYERS: usize = 4;

type Slice = &'static [u8];

/// Rows of one moment.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    /// The newest first; each hides what is below it.
    layers: [Option<&'a Layer>; LAYERS],
    base: &'a Base,
}

/// Bytes that are held in memory or in a page of the file.
pub(crate) enum Held {
    /// In memory.
    Bytes(Bytes),
    /// In a page.
    Page(AccessGuard<'static, Slice>),
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Page(page) => page.value(),
        }
    }
}

impl Held {
    /// The bytes, copied out of their page if they are in one.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Page(page) => Bytes::copy_from_slice(page.value()),
        }
    }
}

/// A row.
pub(crate) struct Row {
    pub(crate) key: Held,
    pub(crate) value: Held,
}

impl<'a> Sight<'a> {
    /// What is seen through these layers, the newest first.
    pub(crate) fn new(layers: [Option<&'a Layer>; LAYERS], base: &'a Base) -> Self {
        let layers = layers.map(|layer| layer.filter(|layer| !layer.is_empty()));
        Self { layers, base }
    }

    /// A row's value.
    pub(crate) fn get(&self, name: TableName, key: &[u8]) -> Result<Option<Held>, Fault> {
        for layer in self.layers.iter().flatten() {
            if let Some(change) = layer.get(name, key) {
                return Ok(change.clone().map(Held::Bytes));
            }
        }
        let row = self.base.table(name)?.get(key)?;
        Ok(row.map(Held::Page))
    }

    /// The rows of a range, in order.
    pub(crate) fn rows(&self, name: TableName, range: &KeyRange) -> Result<Rows<'a>, Fault> {
        self.walk(name, range, Direction::Up)
    }

    /// The last row of a range.
    pub(crate) fn last(&self, name: TableName, range: &KeyRange) -> Result<Option<Row>, Fault> {
        if range.first >= range.end {
            return Ok(None);
        }
        let mut held: Option<(&Bytes, &Change)> = None;
        for layer in self.layers.iter().flatten() {
            if let Some((key, change)) = layer.last(name, range)
                && held.is_none_or(|(before, _)| key > before)
            {
                held = Some((key, change));
            }
        }
        let bounds = range.first.as_slice()..range.end.as_slice();
        let mut rows = self.base.table(name)?.range::<&[u8]>(bounds)?;
        let stored = rows.next_back().transpose()?;
        match (held, stored) {
            (Some((key, Some(value))), stored)
                if stored
                    .as_ref()
                    .is_none_or(|(below, _)| below.value() <= &**key) =>
            {
                Ok(Some(Row {
                    key: Held::Bytes(key.clone()),
                    value: Held::Bytes(value.clone()),
                }))
            }
            // No layer knows a key so high.
            (held, Some((key, value))) if held.is_none_or(|(above, _)| key.value() > &**above) => {
                Ok(Some(Row {
                    key: Held::Page(key),
                    value: Held::Page(value),
                }))
            }
            (None, _) => Ok(None),
            // The last row that somebody knows is gone.
            (Some(_), _) => self.walk(name, range, Direction::Down)?.next().transpose(),
        }
    }

    fn walk(
        &self,
        name: TableName,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Rows<'a>, Fault> {
        let is_empty = range.first >= range.end;
        let layers = self.layers.map(|layer| {
            let changes = layer.filter(|_| !is_empty)?.range(name, range);
            Some(Source::new(changes))
        });
        let base = if is_empty {
            None
        } else {
            let bounds = range.first.as_slice()..range.end.as_slice();
            let rows = self.base.table(name)?.range::<&[u8]>(bounds)?;
            Some(Source::new(rows))
        };
        Ok(Rows {
            layers,
            base,
            direction,
        })
    }

    /// Reads the rows of a range in order: at most `limit`, and none after `bytes_max` bytes.
    pub(crate) fn scan(
        &self,
        name: TableName,
        range: &KeyRange,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Scanned, Fault> {
        let mut scanned = Scanned::default();
        let mut bytes = 0usize;
        for row in self.rows(name, range)? {
            if scanned.rows.len() >= limit {
                break;
            }
            let row = row?;
            if bytes >= bytes_max {
                scanned.rest = Some(KeyRange {
                    first: row.key.to_vec(),
                    end: range.end.clone(),
                });
                break;
            }
            bytes = bytes.saturating_add(row.value.len());
            let row = (row.key.into_bytes(), row.value.into_bytes());
            scanned.rows.push(row);
        }
        Ok(scanned)
    }
}

/// Some rows, in order, and where to go on.
#[derive(Default)]
pub(crate) struct Scanned {
    /// Keys and values.
    pub(crate) rows: Vec<(Bytes, Bytes)>,
    /// What was not read, because enough bytes were.
    pub(crate) rest: Option<KeyRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

impl Direction {
    fn step<I: DoubleEndedIterator>(self, rows: &mut I) -> Option<I::Item> {
        match self {
            Self::Up => rows.next(),
            Self::Down => rows.next_back(),
        }
    }

    /// Whether `key` comes before `other`.
    fn is_before(self, key: &[u8], other: &[u8]) -> bool {
        match self {
            Self::Up => key < other,
            Self::Down => key > other,
        }
    }
}

/// Rows in order, of which the next may be looked at. None is read before it is asked for: it may
/// stand in a page of its own.
struct Source<I: Iterator> {
    head: Option<Option<I::Item>>,
    rest: I,
}

impl<I: DoubleEndedIterator> Source<I> {
    fn new(rest: I) -> Self {
        Self { head: None, rest }
    }

    fn head(&mut self, direction: Direction) -> Option<&I::Item> {
        let rest = &mut self.rest;
        self.head
            .get_or_insert_with(|| direction.step(rest))
            .as_ref()
    }

    fn take(&mut self, direction: Direction) -> Option<I::Item> {
        match self.head.take() {
            Some(head) => head,
            None => direction.step(&mut self.rest),
        }
    }
}

/// Rows in order, each as the newest layer that knows it says.
pub(crate) struct Rows<'a> {
    layers: [Option<Source<Changes<'a>>>; LAYERS],
    base: Option<Source<redb::Range<'static, Slice, Slice>>>,
    direction: Direction,
}

impl Rows<'_> {
    /// The key that comes next in the layers, and what the newest says of it.
    fn next_change(&mut self) -> Option<(Bytes, Change)> {
        let direction = self.direction;
        let mut next: Option<(&Bytes, &Change)> = None;
        for layer in self.layers.iter_mut().flatten() {
            if let Some(&(key, change)) = layer.head(direction)
                && next.is_none_or(|(before, _)| direction.is_before(key, before))
            {
                next = Some((key, change));
            }
        }
        next.map(|(key, change)| (key.clone(), change.clone()))
    }

    fn pass(&mut self, key: &Bytes) {
        for layer in self.layers.iter_mut().flatten() {
            let head = layer.head(self.direction);
            if head.is_some_and(|(head, _)| *head == key) {
                layer.take(self.direction);
            }
        }
    }

    fn next_in_base(&mut self) -> Option<Result<Row, Fault>> {
        let row = self.base.as_mut()?.take(self.direction)?;
        Some(match row {
            Ok((key, value)) => Ok(Row {
                key: Held::Page(key),
                value: Held::Page(value),
            }),
            Err(error) => {
                // Nothing after it is of any worth.
                self.base = None;
                Err(error.into())
            }
        })
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((key, change)) = self.next_change() else {
                return self.next_in_base();
            };
            let direction = self.direction;
            let below = self.base.as_mut().and_then(|base| base.head(direction));
            match below {
                Some(Err(_)) => return self.next_in_base(),
                Some(Ok((below, _))) if direction.is_before(below.value(), &key) => {
                    return self.next_in_base();
                }
                Some(Ok((below, _))) if below.value() == key.as_ref() => {
                    if let Some(base) = &mut self.base {
                        base.take(direction);
                    }
                }
                Some(Ok(_)) | None => {}
            }
            self.pass(&key);
            if let Some(value) = change {
                return Some(Ok(Row {
                    key: Held::Bytes(key),
                    value: Held::Bytes(value),
                }));
            }
        }
    }
}
