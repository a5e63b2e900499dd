//! Opening the store.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use steadfast_store::clock::{Clock, SystemClock};
use steadfast_store::local::{LocalLive, LocalMembership, LocalNodeDoors};
use steadfast_store::{Guarantee, Stores};
use thiserror::Error;

use crate::active::RedbActiveIndex;
use crate::blobs::RedbBlobs;
use crate::database::{self, NotOpened};
use crate::directory::RedbDirectory;
use crate::engine::{Engine, Health, Shared};
use crate::fault::Fault;
use crate::folder::{self, FolderLock};
use crate::log::RedbLog;
use crate::mailbox::RedbMailbox;
use crate::options::Options;
use crate::snapshots::RedbSnapshots;
use crate::stats::Stats;
use crate::storage::{Seen, Source, file_source};
use crate::table::FORMAT;
use crate::timers::RedbTimers;
use crate::writer::Writer;

/// Why a store was not opened. Nothing was changed in what it holds.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "the data folder {} is in use by {}: stop it, or give this node a folder of its own",
        .folder.display(),
        .holder.map_or("another process".into(), |process| format!("process {process}"))
    )]
    InUse {
        /// The data folder.
        folder: PathBuf,
        /// Number of the process, when it could be read.
        holder: Option<u32>,
    },
    /// The folder cannot be used.
    #[error("the data folder {} cannot be used: check that it can be written", .folder.display())]
    Folder {
        /// The data folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It was written by another release.
    #[error(
        "{} has format {found}, this release reads and writes format {known}: \
         use the release that wrote it",
        .file.display()
    )]
    Format {
        /// The file.
        file: PathBuf,
        /// Format of the file; 0 when it is not a store of sessions at all.
        found: u64,
        /// Format of this release.
        known: u64,
    },
    /// It is damaged.
    #[error(
        "{} is damaged and cannot be opened: {reason}. Nothing in it was changed. Put a copy that was \
         made earlier in its place: what was written since that copy is then lost. Without a copy, \
         move the file away and start with an empty store; keep it, as nothing here can read it in part",
        .file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It cannot be read.
    #[error("{} cannot be opened: {reason}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The system gives no thread.
    #[error("the writer's thread cannot be started")]
    Thread(#[source] io::Error),
}

/// Why a store was not closed in good order. All that was acknowledged as synced is on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the store failed before it was closed: {0}")]
pub struct CloseError(String);

/// A store in one file, open.
///
/// The file is closed by [`Self::close`], or when this and all its ports are dropped.
pub struct RedbStore {
    engine: Arc<Engine>,
    stores: Stores,
    guarantee: Guarantee,
    writer: JoinHandle<()>,
}

impl RedbStore {
    /// Opens the store in a data folder, or makes it. Blocks: after a crash the file is checked.
    pub fn open(data_folder: &Path, options: Options) -> Result<Self, OpenError> {
        let lock = FolderLock::take(data_folder)?;
        let file = folder::file(data_folder);
        let source = file_source(file.clone());
        let store = Self::open_locked(&file, source, options, Arc::new(SystemClock), Some(lock))?;
        // The file may be new: its name must outlive a loss of power as its content does.
        folder::sync(data_folder).map_err(|source| OpenError::Folder {
            folder: data_folder.to_path_buf(),
            source,
        })?;
        Ok(store)
    }

    /// Opens the store on storage of the caller's, under the caller's clock: for tests of faults.
    pub fn open_on(
        source: Source,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        Self::open_locked(Path::new("the given storage"), source, options, clock, None)
    }

    fn open_locked(
        file: &Path,
        source: Source,
        options: Options,
        clock: Arc<dyn Clock>,
        lock: Option<FolderLock>,
    ) -> Result<Self, OpenError> {
        let seen = Arc::new(Seen::default());
        let shared = Arc::new(Shared::new(seen, clock, options.silence()));
        let opened = open_guarded(|| {
            let opened = database::open(&source, &shared.seen, options.cache_bytes)?;
            database::fill(&shared, &opened.view)?;
            Ok(opened)
        })
        .map_err(|error| refused(file, error))?;
        shared.position_past(opened.numbers.position);
        shared.show(Some(opened.view.clone()));
        let guarantee = Guarantee {
            fsync: options.require_fsync,
            replicas: 1,
        };
        // Bounded by the places that senders take first.
        let (sender, receiver) = mpsc::channel();
        let writer = Writer::new(Arc::clone(&shared), receiver, source, options, opened, lock);
        let writer = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run())
            .map_err(OpenError::Thread)?;
        let engine = Arc::new(Engine::new(shared, sender));
        Ok(Self {
            stores: ports(&engine),
            engine,
            guarantee,
            writer,
        })
    }

    /// The ports.
    pub fn stores(&self) -> Stores {
        self.stores.clone()
    }

    /// What an acknowledgement means.
    pub fn guarantee(&self) -> Guarantee {
        self.guarantee
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// The same for whoever may outlive the store: nothing once it is closed.
    pub fn watch_stats(&self) -> impl Fn() -> Option<Stats> + Send + Sync + use<> {
        let engine = Arc::downgrade(&self.engine);
        move || engine.upgrade().map(|engine| engine.stats())
    }

    /// Waits until the store has failed or is closed, and tells why: from then on every operation
    /// is refused, and the process should end and start anew.
    pub async fn failed(&self) -> String {
        self.engine.shared.not_working().await
    }

    /// Writes what waits, syncs, closes the file and gives the folder free. Ports that are left
    /// refuse everything from then on.
    pub async fn close(self) -> Result<(), CloseError> {
        let Self { engine, writer, .. } = self;
        engine.ask_to_close();
        let joined = tokio::task::spawn_blocking(move || writer.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            return Err(CloseError("the writer panicked".into()));
        }
        let health = engine.shared.health.borrow().clone();
        match health {
            Health::Closed | Health::Working => Ok(()),
            Health::Failed(reason) => Err(CloseError(reason)),
        }
    }
}

fn ports(engine: &Arc<Engine>) -> Stores {
    let engine = || Arc::clone(engine);
    Stores {
        log: Arc::new(RedbLog::new(engine())),
        mailbox: Arc::new(RedbMailbox::new(engine())),
        timers: Arc::new(RedbTimers::new(engine())),
        active: Arc::new(RedbActiveIndex::new(engine())),
        directory: Arc::new(RedbDirectory::new(engine())),
        blobs: Arc::new(RedbBlobs::new(engine())),
        snapshots: Arc::new(RedbSnapshots::new(engine())),
        live: Arc::new(LocalLive::default()),
        membership: Arc::new(LocalMembership::alone()),
        node_doors: Arc::new(LocalNodeDoors::default()),
        // No worker could reach it: only this process has the file.
        tool_queue: None,
    }
}

/// The database panics on some damaged pages: the operator is told of the file instead.
fn open_guarded<T>(open: impl FnOnce() -> Result<T, NotOpened>) -> Result<T, NotOpened> {
    catch_unwind(AssertUnwindSafe(open))
        .unwrap_or_else(|_| Err(NotOpened::Fault(Fault::panicked())))
}

pub(crate) fn refused(file: &Path, error: NotOpened) -> OpenError {
    match error {
        NotOpened::Format(found) => OpenError::Format {
            file: file.to_path_buf(),
            found,
            known: FORMAT,
        },
        NotOpened::InUse => OpenError::InUse {
            folder: file.parent().unwrap_or(file).to_path_buf(),
            holder: None,
        },
        NotOpened::Fault(
            Fault::Corrupt(reason) | Fault::Database(redb::Error::Corrupted(reason)),
        ) => OpenError::Damaged {
            file: file.to_path_buf(),
            reason,
        },
        NotOpened::Fault(fault) => OpenError::File {
            file: file.to_path_buf(),
            reason: match fault {
                Fault::Database(redb::Error::Io(error)) => error.to_string(),
                fault => fault.to_string(),
            },
        },
    }
}
