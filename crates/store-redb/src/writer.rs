//! The writer: one thread that runs all writes of all ports.
//!
//! It takes whatever waits, runs it, writes what changed as one value into the journal, syncs once,
//! then answers each. While it syncs, the next group gathers; so a single caller waits for about one
//! sync, and many share one.
//!
//! ```text
//!  group --- only Seen ---> waiting  (in memory, in the file within the sync delay)
//!    |                         |
//!    +--- Kept -----> commit: waiting and group into the journal, a slice of moving into the tables
//!                              |
//!                          journaled --- enough ---> moving --- all in the tables ---> gone
//! ```

mod commit;
mod execute;
mod moving;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use redb::Database;

use crate::database::Opened;
use crate::engine::{Health, Message, Shared};
use crate::folder::FolderLock;
use crate::log::Tails;
use crate::operation::Operation;
use crate::options::Options;
use crate::storage::Source;
use crate::view::View;
use moving::Moving;

/// Operations in one transaction.
const GROUP_OPERATIONS_MAX: usize = 1_024;

/// Bytes after which a group takes no more operations, so that a few large ones do not keep all
/// others waiting for one long sync.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The writer's side of a store.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    receiver: Receiver<Message>,
    source: Source,
    options: Options,
    /// Open while the store works.
    database: Option<Arc<Database>>,
    /// What readers are shown, too.
    view: View,
    /// Layout of the file.
    format: u64,
    /// How many groups were committed.
    groups: u64,
    /// How many of them are in [`View::journaled`].
    journaled_groups: usize,
    moving: Moving,
    tails: Tails,
    /// Large rows of the next commit go to their tables at once.
    goes_straight: bool,
    /// Since when something that was acknowledged is not synced.
    unsynced_since: Option<Instant>,
    room: Room,
    folder: Option<FolderLock>,
}

/// Whether the disk has room, as far as is known.
#[derive(Debug, Clone, Copy)]
enum Room {
    Enough,
    /// It was full, and the file was opened anew: nothing is tried before `until`.
    Full {
        until: Instant,
        wait: Duration,
    },
}

enum Received {
    Group(Vec<Operation>),
    SyncIsDue,
    /// The last group.
    End(Vec<Operation>),
}

impl Writer {
    /// A writer for an open database.
    pub(crate) fn new(
        shared: Arc<Shared>,
        receiver: Receiver<Message>,
        source: Source,
        options: Options,
        opened: Opened,
        folder: Option<FolderLock>,
    ) -> Self {
        Self {
            shared,
            receiver,
            source,
            options,
            database: Some(Arc::new(opened.database)),
            view: opened.view,
            format: opened.numbers.format,
            groups: opened.numbers.groups,
            journaled_groups: opened.journaled_groups,
            moving: Moving::default(),
            tails: Tails::default(),
            goes_straight: true,
            unsynced_since: None,
            room: Room::Enough,
            folder,
        }
    }

    /// Serves until told to close or until no port is left, then closes the file.
    pub(crate) fn run(self) {
        let shared = Arc::clone(&self.shared);
        if catch_unwind(AssertUnwindSafe(|| self.serve())).is_err() {
            let reason = "the writer panicked".to_owned();
            tracing::error!(reason, "the store failed");
            shared.health.send_replace(Health::Failed(reason));
            shared.stop_taking();
            shared.show(None);
        }
    }

    fn serve(mut self) {
        loop {
            match self.receive() {
                Received::Group(operations) => self.execute(operations),
                Received::SyncIsDue => self.sync(),
                Received::End(operations) => {
                    self.execute(operations);
                    break;
                }
            }
        }
        self.close();
    }

    fn receive(&self) -> Received {
        let first = match self.receive_first() {
            Ok(Message::Operation(operation)) => operation,
            Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => {
                return Received::End(Vec::new());
            }
            Err(RecvTimeoutError::Timeout) => return Received::SyncIsDue,
        };
        let mut bytes = first.size_bytes;
        let mut group = vec![first];
        while group.len() < GROUP_OPERATIONS_MAX && bytes < GROUP_BYTES_MAX {
            match self.receiver.try_recv() {
                Ok(Message::Operation(operation)) => {
                    bytes = bytes.saturating_add(operation.size_bytes);
                    group.push(operation);
                }
                Ok(Message::Close) => return Received::End(group),
                Err(_) => break,
            }
        }
        Received::Group(group)
    }

    fn receive_first(&self) -> Result<Message, RecvTimeoutError> {
        match self.unsynced_since {
            None => Ok(self.receiver.recv()?),
            Some(since) => {
                let left = self.options.sync_delay().saturating_sub(since.elapsed());
                // Nothing is tried while there is no room.
                let full = match self.room {
                    Room::Full { until, .. } => until.saturating_duration_since(Instant::now()),
                    Room::Enough => Duration::ZERO,
                };
                self.receiver.recv_timeout(left.max(full))
            }
        }
    }

    /// Writes what still waits, syncs, closes the file, then gives the folder free.
    fn close(mut self) {
        self.shared.stop_taking();
        while let Ok(message) = self.receiver.try_recv() {
            if let Message::Operation(operation) = message {
                self.execute(vec![operation]);
            }
        }
        self.sync();
        self.move_all();
        self.shared.show(None);
        // The database ends after all that reads it.
        drop(self.view);
        if let Some(database) = self.database.take().and_then(Arc::into_inner)
            && let Err(error) = database.close()
        {
            // All that was promised is synced; the next start only takes longer.
            tracing::warn!(%error, "the store was not closed in good order");
        }
        self.shared.health.send_if_modified(|health| {
            let working = *health == Health::Working;
            if working {
                *health = Health::Closed;
            }
            working
        });
        drop(self.folder);
    }
}
