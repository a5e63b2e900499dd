//! What a driver does beside its work, never in its way: snapshots, the directory, the mailbox.

use std::future::Future;
use std::sync::Arc;

use steadfast_protocol::snapshot::{self, Snapshot};
use steadfast_store::directory::DirectoryEntry;
use steadfast_store::error::ReadError;
use steadfast_store::mailbox::Letter;
use tokio::task::JoinSet;

use super::Driver;
use crate::directory;
use crate::host::Host;
use crate::pack::Packer;

/// A chore that ended.
pub(super) enum Chore {
    MailRead(Result<Vec<Letter>, ReadError>),
    Snapshot(Packer, Result<(), String>),
    Directory(Option<DirectoryEntry>),
    /// Any other, with what went wrong.
    Done(&'static str, Result<(), String>),
    /// It panicked.
    Failed,
}

/// The chores of one driver; they end with it.
pub(super) struct Chores {
    tasks: JoinSet<Chore>,
    snapshot_runs: bool,
    directory_runs: bool,
    /// What the directory shows.
    shown: Option<DirectoryEntry>,
}

impl Chores {
    pub(super) fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            snapshot_runs: false,
            directory_runs: false,
            shown: None,
        }
    }

    pub(super) fn spawn(&mut self, chore: impl Future<Output = Chore> + Send + 'static) {
        self.tasks.spawn(chore);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits for the next one to end; for ever when there is none.
    pub(super) async fn next(&mut self) -> Chore {
        match self.tasks.join_next().await {
            Some(ended) => ended.unwrap_or(Chore::Failed),
            None => std::future::pending().await,
        }
    }
}

impl Driver {
    pub(super) async fn chore_done(&mut self, chore: Chore) {
        match chore {
            Chore::MailRead(letters) => self.mail_read(letters).await,
            Chore::Snapshot(packer, written) => {
                self.packer = packer;
                self.chores.snapshot_runs = false;
                if let Err(error) = written {
                    tracing::warn!(session = %self.seat.key, error, "snapshot not written");
                }
            }
            Chore::Directory(shown) => {
                self.chores.directory_runs = false;
                self.chores.shown = shown.or(self.chores.shown.take());
            }
            Chore::Done(what, Err(error)) => {
                tracing::warn!(session = %self.seat.key, what, error, "chore not done");
            }
            Chore::Done(_, Ok(())) => {}
            Chore::Failed => tracing::error!(session = %self.seat.key, "a chore panicked"),
        }
    }

    /// Starts what is due after a commit.
    pub(super) fn keep_house(&mut self) {
        if self.records_since_snapshot >= self.host.options.snapshot_records {
            self.begin_snapshot();
        }
        if self.chores.directory_runs {
            return;
        }
        self.chores.directory_runs = true;
        let host = Arc::clone(&self.host);
        let committed = self.seat.committed.subscribe();
        let shown = self.chores.shown.take();
        self.chores.spawn(async move {
            tokio::time::sleep(host.options.directory_delay).await;
            // What happened meanwhile is shown with it.
            let session = committed.borrow().clone();
            let entry = session.as_deref().and_then(directory::entry);
            match (session, entry) {
                (Some(session), Some(entry)) if shown.as_ref() != Some(&entry) => {
                    directory::put(&host, &session.key, entry.clone()).await;
                    Chore::Directory(Some(entry))
                }
                _ => Chore::Directory(shown),
            }
        });
    }

    fn begin_snapshot(&mut self) {
        if self.chores.snapshot_runs {
            return;
        }
        self.chores.snapshot_runs = true;
        self.records_since_snapshot = 0;
        let chore = self.snapshot();
        self.chores.spawn(chore);
    }

    /// Writes a snapshot of what is committed now.
    pub(super) fn snapshot(&mut self) -> impl Future<Output = Chore> + Send + use<> {
        let host = Arc::clone(&self.host);
        let mut packer = std::mem::take(&mut self.packer);
        let session = Arc::clone(self.journal.committed());
        let (last_record, tail) = (self.journal.last_record(), self.journal.tail());
        async move {
            let packing = packer.pack(&session);
            let snapshot = Snapshot {
                session: packing.session,
                last_record,
                tail: tail.0,
            };
            let written = write(&host, snapshot, packing.blobs).await;
            if written.is_err() {
                // Its blobs may be missing: pack them again next time.
                packer = Packer::default();
            }
            Chore::Snapshot(packer, written)
        }
    }
}

/// Blobs first: a snapshot names only what is there.
async fn write(host: &Host, snapshot: Snapshot, blobs: Vec<bytes::Bytes>) -> Result<(), String> {
    let key = snapshot.session.key.clone();
    for blob in blobs {
        let put = host.stores.blobs.put(&key, blob).await;
        put.map_err(|error| error.to_string())?;
    }
    let bytes = snapshot::encode(&snapshot).map_err(|error| error.to_string())?;
    let put = host.stores.snapshots.put(&key, bytes.into()).await;
    put.map_err(|error| error.to_string())
}
