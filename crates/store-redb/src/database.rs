//! Opening the database, and what is read from it when it opens.

use std::sync::Arc;

use redb::{Builder, Database, Durability, ReadableDatabase};
use steadfast_store::mailbox::MailSeq;

use crate::engine::Shared;
use crate::fault::Fault;
use crate::journal::{self, Replayed};
use crate::key::{self, KeyRange};
use crate::mailbox;
use crate::storage::{Seen, Source, Watched};
use crate::table::{self, FORMAT, FORMAT_BEFORE, Number, TableName};
use crate::view::{Base, View};

/// The numbers of a file that the writer goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// See [`Number::Format`].
    pub(crate) format: u64,
    /// See [`Number::Position`].
    pub(crate) position: u64,
    /// See [`Number::Groups`].
    pub(crate) groups: u64,
}

/// An open database with what its journal held.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) numbers: Numbers,
    /// What is seen of it.
    pub(crate) view: View,
    /// Groups in the journal.
    pub(crate) journaled_groups: usize,
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
) -> Result<Opened, NotOpened> {
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
    if is_new(&database)? {
        initialize(&database)?;
    }
    let read = database.begin_read().map_err(Fault::from)?;
    let Replayed {
        rows,
        groups: journaled_groups,
        last_group,
        position,
    } = journal::replay(&read)?;
    let number = |which| Ok::<_, Fault>(table::number(&read, which)?.unwrap_or(0));
    let numbers = Numbers {
        format: number(Number::Format)?,
        position: number(Number::Position)?.max(position),
        groups: number(Number::Groups)?.max(last_group),
    };
    let view = View {
        waiting: Arc::default(),
        journaled: Arc::new(rows),
        moving: None,
        base: Arc::new(Base::new(read)),
    };
    Ok(Opened {
        database,
        numbers,
        view,
        journaled_groups,
    })
}

/// Whether nothing was ever written to the file.
fn is_new(database: &Database) -> Result<bool, NotOpened> {
    let read = database.begin_read().map_err(Fault::from)?;
    match table::number(&read, Number::Format)? {
        Some(FORMAT | FORMAT_BEFORE) => Ok(false),
        Some(found) => Err(NotOpened::Format(found)),
        // A file that is somebody else's has tables, one that is new or whose making was cut off
        // has none.
        None if read.list_tables().map_err(Fault::from)?.next().is_none() => Ok(true),
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
pub(crate) fn fill(shared: &Shared, view: &View) -> Result<(), Fault> {
    shared.letters.clear();
    let sight = view.sight();
    for row in sight.rows(TableName::Mail, &KeyRange::of_ids())? {
        let row = row?;
        match key::split_numbered(&row.key) {
            Some((session, seq)) => {
                shared.letters.add(&session, mailbox::lane_of(&row.value));
                shared.mail_queue.arrived(&session, MailSeq(seq));
            }
            None => tracing::error!(key = ?&*row.key, "a letter of nobody stands in the store"),
        }
    }
    shared.timers.load_anew(view)
}
