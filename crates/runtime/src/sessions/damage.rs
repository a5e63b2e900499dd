//! Which rows of a quarantined session's log no longer join what can be read of it.

use steadfast_core::id::{Epoch, Seq, SessionKey};
use steadfast_protocol::record;

use super::{LoadError, Sessions};
use crate::open;
use crate::rows::{Row, Rows};

/// Rows that are told one by one, at most.
const ROWS_MAX: usize = 1_000;

/// What is wrong with a session's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Stable code.
    pub code: String,
    /// The same for people.
    pub detail: String,
    /// Number of the last event that can be read in one piece from the start.
    pub readable_through: Seq,
    /// The rows after it, in order, as far as there is room to tell them.
    pub rows: Vec<LostRow>,
    /// How many more there are.
    pub rows_untold: u64,
}

/// A row that a repair would leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRow {
    /// Its place in the log, by the store's own count.
    pub row: u64,
    /// What can be read of it.
    pub state: RowState,
}

/// What can be read of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowState {
    /// The store cannot give it.
    Unreadable {
        /// Why.
        detail: String,
    },
    /// The store gives it, and it is no Record.
    Damaged {
        /// Number of its first event, as the store has noted it.
        first_seq: Seq,
        /// What is wrong with it.
        detail: String,
    },
    /// It is a Record, and stands where it does not join what is before it.
    Record {
        /// Number of its first event.
        first_seq: Seq,
        /// Number of its last event.
        last_seq: Seq,
        /// Ownership generation of its writer.
        epoch: Epoch,
    },
}

impl Sessions {
    /// What is wrong with a quarantined session's log, row by row; `None` when it is not quarantined.
    pub async fn damage(&self, key: &SessionKey) -> Result<Option<Damage>, LoadError> {
        let host = &self.shared.host;
        let batch = host.options.read_batch_records;
        let damaged = match open::damaged(&host.stores, key, batch).await? {
            Ok(_) => return Ok(None),
            Err(damaged) => damaged,
        };
        let mut damage = Damage {
            code: damaged.code.to_owned(),
            detail: damaged.detail,
            readable_through: damaged.good.link().last_seq,
            rows: Vec::new(),
            rows_untold: 0,
        };
        let mut rows = Rows::after(damaged.good.tail, damaged.tail.tail);
        while let Some(row) = rows.next_of_all(&host.stores, key).await? {
            if damage.rows.len() < ROWS_MAX {
                damage.rows.push(lost_row(row));
            } else {
                damage.rows_untold += 1;
            }
        }
        Ok(Some(damage))
    }
}

fn lost_row(row: Row) -> LostRow {
    match row {
        Row::Unreadable(at, detail) => LostRow {
            row: at.0,
            state: RowState::Unreadable { detail },
        },
        Row::Stored(stored) => LostRow {
            row: stored.tail.0,
            state: match record::decode(&stored.bytes) {
                Ok(record) => RowState::Record {
                    first_seq: record.first_seq,
                    last_seq: record.last_seq(),
                    epoch: record.epoch,
                },
                Err(error) => RowState::Damaged {
                    first_seq: stored.first_seq,
                    detail: error.to_string(),
                },
            },
        },
    }
}
