//! Receipts that are kept beside the snapshot: a session is opened without them, since what is asked
//! is seldom among them. They are read once the owner has begun its work, or when a command comes
//! that may be among them, which then waits for them.

use std::sync::Arc;

use steadfast_core::command::Command;
use tokio::time::Duration;

use super::chores::Chore;
use super::{Driver, End};
use crate::pack::receipts::{Blocks, BringError};
use crate::snapshot;

impl Driver {
    /// Makes sure that what must be known to decide about a command is here. `Err`: it cannot be
    /// read now.
    pub(super) async fn remember(&mut self, command: &Command) -> Result<(), String> {
        let session = self.journal.decided();
        let mut asked = [Some(&command.id), command.body.message()]
            .into_iter()
            .flatten();
        if asked.any(|id| session.receipts.may_be_away(id)) {
            let read = snapshot::bring_receipts(&self.host.stores, session).await;
            self.put_back(&read.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    fn put_back(&mut self, blocks: &Blocks) {
        self.journal.put_back(blocks);
        self.seat.show(self.journal.committed());
    }

    /// Reads what is away, if something is.
    pub(super) fn read_receipts(&mut self, wait: Duration) {
        let session = Arc::clone(self.journal.committed());
        if self.chores.receipts.is_some() || session.receipts.away().is_empty() {
            return;
        }
        let host = Arc::clone(&self.host);
        let id = self.chores.spawn(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            Chore::ReceiptsRead(snapshot::bring_receipts(&host.stores, &session).await)
        });
        self.chores.receipts = Some(id);
    }

    pub(super) fn receipts_read(&mut self, read: Result<Blocks, BringError>) -> Option<End> {
        self.chores.receipts = None;
        match read {
            Ok(blocks) => self.put_back(&blocks),
            Err(BringError::Unavailable(detail)) => {
                tracing::warn!(session = %self.seat.key, detail, "receipts not read, again");
                self.read_receipts(self.host.options.mail_delay);
            }
            // The next owner reads the log: no answer is given that might be a second one.
            Err(error @ BringError::Damaged(_)) => return Some(End::GaveUp(error.to_string())),
        }
        None
    }
}
