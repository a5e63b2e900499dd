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
    /// Rows of which not even the store's own note can be read.
    pub(crate) unreadable: u64,
}

impl Rows {
    pub(crate) fn after(at: Tail, until: Tail) -> Self {
        Self {
            at,
            until,
            unreadable: 0,
        }
    }

    /// The next row that the store can give; whether its bytes are a Record is another question.
    pub(crate) async fn next(
        &mut self,
        stores: &Stores,
        key: &SessionKey,
    ) -> Result<Option<StoredRecord>, OpenError> {
        while self.at < self.until {
            match stores.log.read(key, ReadFrom::After(self.at), 1).await {
                Ok(rows) => {
                    let Some(row) = rows.into_iter().next() else {
                        return Ok(None);
                    };
                    self.at = row.tail;
                    return Ok(Some(row));
                }
                Err(ReadError::Corrupt(_)) => {
                    self.unreadable += 1;
                    self.at = Tail(self.at.0.saturating_add(1));
                }
                Err(error @ ReadError::Unavailable(_)) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}
