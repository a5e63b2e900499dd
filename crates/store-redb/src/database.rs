//! Opening the database, and what is read from it when it opens.

use std::sync::Arc;

use redb::{Builder, Database, Durability, ReadableDatabase};
use steadfast_store::mailbox::MailSeq;

use crate::engine::Shared;
use crate::fault::Fault;
use crate::key;
use crate::mailbox;
use crate::storage::{Seen, Source, Watched};
use crate::table::{self, FORMAT, Number, TableName};

/// The numbers of a file that the writer goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// See [`Number::Position`].
    pub(crate) position: u64,
    /// See [`Number::Groups`].
    pub(crate) groups: u64,
}

/// Why a file was not opened.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// Its rows are laid out in a way that is not known here.
    Format(u64),
    /// Somebody else has it open.
    InUse,
    /// Anything else.
    Fault(Fault),
}

impl From<Fault> for NotOpened {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Database(redb::Error::DatabaseAlreadyOpen) => Self::InUse,
            fault => Self::Fault(fault),
        }
    }
}

impl From<NotOpened> for Fault {
    fn from(error: NotOpened) -> Self {
        match error {
            NotOpened::Format(found) => Self::NotOpen(format!(
                "the file has format {found}, this release knows {FORMAT}"
            )),
            NotOpened::InUse => Self::NotOpen("the file is open elsewhere".into()),
            NotOpened::Fault(fault) => fault,
        }
    }
}

/// Opens the database, and makes it what it must be when it is new.
pub(crate) fn open(
    source: &Source,
    seen: &Arc<Seen>,
    cache_bytes: usize,
) -> Result<(Database, Numbers), NotOpened> {
    seen.forget();
    let io_fault = |error: std::io::Error| Fault::Database(redb::Error::Io(error));
    let storage = Watched::new(source().map_err(io_fault)?, Arc::clone(seen)).map_err(io_fault)?;
    let database = Builder::new()
        .set_cache_size(cache_bytes)
        .set_repair_callback(|repair| {
            tracing::info!(
                progress = repair.progress(),
                "the store was not closed in good order, it is being checked"
            );
        })
        .create_with_backend(storage)
        .map_err(Fault::from)?;
    let numbers = match numbers(&database)? {
        Some(numbers) => numbers,
        None => {
            initialize(&database)?;
            Numbers {
                position: 0,
                groups: 0,
            }
        }
    };
    Ok((database, numbers))
}

/// The numbers of the file; `None`: it is new.
fn numbers(database: &Database) -> Result<Option<Numbers>, NotOpened> {
    let read = database.begin_read().map_err(Fault::from)?;
    match table::number(&read, Number::Format)? {
        Some(FORMAT) => Ok(Some(Numbers {
            position: table::number(&read, Number::Position)?.unwrap_or(0),
            groups: table::number(&read, Number::Groups)?.unwrap_or(0),
        })),
        Some(found) => Err(NotOpened::Format(found)),
        // A file that is somebody else's has tables, one that is new or whose making was cut off
        // has none.
        None if read.list_tables().map_err(Fault::from)?.next().is_none() => Ok(None),
        None => Err(NotOpened::Format(0)),
    }
}

fn initialize(database: &Database) -> Result<(), Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    table::create_all(&transaction)?;
    table::set_numbers(&transaction, &[(Number::Format, FORMAT)])?;
    transaction.commit()?;
    Ok(())
}

/// Fills what is kept in memory from the file: who has mail, which timers are near.
pub(crate) fn fill(shared: &Shared) -> Result<(), Fault> {
    let read = shared.begin_read()?;
    shared.letters.clear();
    let letters = table::open(&read, TableName::Mail)?;
    for row in letters.range::<&[u8]>(..)? {
        let (key, value) = row?;
        match key::split_numbered(key.value()) {
            Some((session, seq)) => {
                shared
                    .letters
                    .add(&session, mailbox::lane_of(value.value()));
                shared.mail_queue.arrived(&session, MailSeq(seq));
            }
            None => tracing::error!(key = ?key.value(), "a letter of nobody stands in the store"),
        }
    }
    shared.timers.load_anew(&read)
}
