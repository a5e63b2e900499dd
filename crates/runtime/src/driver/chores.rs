//! What a driver does beside its work, never in its way: snapshots, the directory, the mailbox.

use std::future::Future;
use std::sync::Arc;

use steadfast_store::directory::DirectoryEntry;
use steadfast_store::error::ReadError;
use steadfast_store::log::Tail;
use steadfast_store::mailbox::Letter;
use tokio::task::{self, JoinSet};
use tokio::time::Duration;

use super::letting_go::Going;
use super::{Driver, Stance};
use crate::directory;
use crate::handover::Turn;
use crate::pack::Packer;
use crate::pack::receipts::{Blocks, BringError};
use crate::snapshot;

/// A chore that ended.
pub(super) enum Chore {
    MailRead(Result<Vec<Letter>, ReadError>),
    /// Where the log ends, for an answer that leaves nothing in it.
    TailRead(Result<Tail, ReadError>),
    /// Receipts that were kept beside the snapshot.
    ReceiptsRead(Result<Blocks, BringError>),
    /// A snapshot that covers so many Records more than the one before.
    Snapshot(Packer, Result<u64, String>),
    Directory(Option<DirectoryEntry>),
    /// It may go.
    MayGo(Turn),
    /// Any other, with what went wrong.
    Done(&'static str, Result<(), String>),
    /// It panicked.
    Failed(task::Id),
}

/// The chores of one driver; they end with it.
pub(super) struct Chores {
    tasks: JoinSet<Chore>,
    snapshot: Option<task::Id>,
    directory: Option<task::Id>,
    pub(super) receipts: Option<task::Id>,
    /// What the directory shows.
    shown: Option<DirectoryEntry>,
}

impl Chores {
    pub(super) fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            snapshot: None,
            directory: None,
            receipts: None,
            shown: None,
        }
    }

    pub(super) fn spawn(
        &mut self,
        chore: impl Future<Output = Chore> + Send + 'static,
    ) -> task::Id {
        self.tasks.spawn(chore).id()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Forgets who waited for them, when there are none.
    pub(super) fn forget_waker(&mut self) {
        if self.tasks.is_empty() {
            self.tasks = JoinSet::new();
        }
    }

    /// Waits for the next one to end; for ever when there is none.
    pub(super) async fn next(&mut self) -> Chore {
        match self.tasks.join_next().await {
            Some(ended) => ended.unwrap_or_else(|error| Chore::Failed(error.id())),
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
                self.chores.snapshot = None;
                self.snapshot_written(written);
            }
            Chore::Directory(shown) => {
                self.chores.directory = None;
                self.chores.shown = shown.or(self.chores.shown.take());
            }
            Chore::MayGo(turn) => self.going = Going::Now(turn),
            Chore::Done(what, Err(error)) => {
                tracing::warn!(session = %self.seat.key, what, error, "chore not done");
            }
            // The loop looks at it.
            Chore::TailRead(_) | Chore::ReceiptsRead(_) | Chore::Done(_, Ok(())) => {}
            Chore::Failed(id) => {
                self.reading_failed(id);
                self.chores.receipts.take_if(|reading| *reading == id);
                tracing::error!(session = %self.seat.key, "a chore panicked");
                if self.chores.snapshot == Some(id) {
                    self.chores.snapshot = None;
                    self.snapshot_written(Err("it panicked".into()));
                }
                if self.chores.directory == Some(id) {
                    self.chores.directory = None;
                }
            }
        }
    }

    /// Whether the directory tells this of the session already.
    pub(super) fn shows(&self, entry: &DirectoryEntry) -> bool {
        let shown = self.chores.shown.as_ref();
        shown.is_some_and(|shown| directory::tells(shown, entry))
    }

    /// Starts what is due after a commit.
    pub(super) fn keep_house(&mut self) {
        // The release puts all away itself.
        if self.stance == Stance::Releasing {
            return;
        }
        self.read_receipts(Duration::ZERO);
        if self.chores.snapshot.is_none() && self.records_since_snapshot >= self.snapshot_due {
            let chore = self.snapshot();
            self.chores.snapshot = Some(self.chores.spawn(chore));
        }
        if self.chores.directory.is_some() {
            return;
        }
        let host = Arc::clone(&self.host);
        let door = Arc::clone(&self.seat.door);
        let shown = self.chores.shown.take();
        let id = self.chores.spawn(async move {
            tokio::time::sleep(host.options.directory_delay).await;
            // What happened meanwhile is shown with it.
            let session = door.committed();
            let entry = session.as_deref().and_then(directory::entry);
            match (session, entry) {
                (Some(session), Some(entry)) if shown.as_ref() != Some(&entry) => {
                    let written = directory::put(&host, &session.key, entry.clone()).await;
                    Chore::Directory(written.then_some(entry))
                }
                _ => Chore::Directory(shown),
            }
        });
        self.chores.directory = Some(id);
    }

    /// The Records that a snapshot covers count until it is known to stand: whoever lets the
    /// session go meanwhile must not take it for written.
    fn snapshot_written(&mut self, written: Result<u64, String>) {
        match written {
            Ok(records) => {
                self.records_since_snapshot = self.records_since_snapshot.saturating_sub(records);
                self.snapshot_due = self.host.options.snapshot_records;
            }
            Err(error) => {
                tracing::warn!(session = %self.seat.key, error, "snapshot not written");
                self.snapshot_due = self
                    .records_since_snapshot
                    .saturating_add(self.host.options.snapshot_records);
            }
        }
    }

    /// A snapshot for who opens the session next, when what no snapshot covers is worth it.
    pub(super) async fn snapshot_for_next(&mut self) {
        // One that is being written counts only once it stands.
        while self.chores.snapshot.is_some() && !self.chores.is_empty() {
            match self.chores.next().await {
                chore @ (Chore::Snapshot(..) | Chore::Failed(_)) => self.chore_done(chore).await,
                // What it brings is of no use to an owner that has let go.
                Chore::MailRead(_)
                | Chore::TailRead(_)
                | Chore::ReceiptsRead(_)
                | Chore::Directory(_)
                | Chore::MayGo(_)
                | Chore::Done(..) => {}
            }
        }
        if self.records_since_snapshot >= self.host.options.snapshot_at_release_records_min {
            let chore = self.snapshot().await;
            self.chore_done(chore).await;
        }
    }

    /// Writes a snapshot of what is committed now.
    fn snapshot(&mut self) -> impl Future<Output = Chore> + Send + use<> {
        let host = Arc::clone(&self.host);
        let mut packer = std::mem::take(&mut self.packer);
        let session = Arc::clone(self.journal.committed());
        let (last_record, tail) = (self.journal.last_record(), self.journal.tail());
        let records = self.records_since_snapshot;
        async move {
            let written =
                snapshot::write(&host.stores, &mut packer, &session, last_record, tail).await;
            let written = written.map(|()| records);
            if written.is_err() {
                // Its blobs may be missing: pack them again next time.
                packer = Packer::default();
            }
            Chore::Snapshot(packer, written)
        }
    }
}
