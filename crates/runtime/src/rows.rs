//! The rows of a log one by one, past those that cannot be read.

use steadfast_core::id::SessionKey;
use steadfast_store::Stores;
use steadfast_store::error::ReadError;
use steadfast_store::log::{ReadFrom, StoredRecord, Tail};

use crate::open::OpenError;

/// Goes over the rows between two tails.
pub(crate) struct Rows {
    at: Tail,
    until: Tail,
}

/// A row of a log.
pub(crate) enum Row {
    /// What the store gives; whether its bytes are a Record is another question.
    Stored(StoredRecord),
    /// Where a row stands of which not even the store's own note can be read, and why.
    Unreadable(Tail, String),
}

impl Rows {
    pub(crate) fn after(at: Tail, until: Tail) -> Self {
        Self { at, until }
    }

    /// The next row that the store can give.
    pub(crate) async fn next(
        &mut self,
        stores: &Stores,
        key: &SessionKey,
    ) -> Result<Option<StoredRecord>, OpenError> {
        loop {
            match self.next_of_all(stores, key).await? {
                Some(Row::Stored(row)) => return Ok(Some(row)),
                Some(Row::Unreadable(..)) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next row, whether the store can give it or not.
    pub(crate) async fn next_of_all(
        &mut self,
        stores: &Stores,
        key: &SessionKey,
    ) -> Result<Option<Row>, OpenError> {
        if self.at >= self.until {
            return Ok(None);
        }
        match stores.log.read(key, ReadFrom::After(self.at), 1).await {
            Ok(rows) => Ok(rows.into_iter().next().map(|row| {
                self.at = row.tail;
                Row::Stored(row)
            })),
            Err(ReadError::Corrupt(detail)) => {
                self.at = Tail(self.at.0.saturating_add(1));
                Ok(Some(Row::Unreadable(self.at, detail)))
            }
            Err(error @ ReadError::Unavailable(_)) => Err(error.into()),
        }
    }
}
