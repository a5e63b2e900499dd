//! Elections: for seconds nobody can use one stream of a store, while the others work.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::operation::Operation;
use crate::local::lock;

/// A part of a store that has a leader of its own. What is not stored has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is named after its port")]
pub enum Stream {
    Log,
    Mailbox,
    Timers,
    Active,
    Directory,
    Leases,
    Blobs,
    ToolQueue,
}

impl Stream {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Log,
        Self::Mailbox,
        Self::Timers,
        Self::Active,
        Self::Directory,
        Self::Leases,
        Self::Blobs,
        Self::ToolQueue,
    ];

    /// The stream that a call needs a leader of.
    fn of(operation: Operation) -> Option<Self> {
        Some(match operation {
            Operation::Append | Operation::Tail | Operation::Read | Operation::Purge => Self::Log,
            Operation::SendLetter
            | Operation::PendingLetters
            | Operation::AcknowledgeLetters
            | Operation::NextDelivery
            | Operation::GiveBack => Self::Mailbox,
            Operation::SetTimer | Operation::NextTimer | Operation::AcknowledgeTimer => {
                Self::Timers
            }
            Operation::AddActive
            | Operation::RemoveActive
            | Operation::ActiveNodes
            | Operation::ActiveEntries => Self::Active,
            Operation::PutDirectory | Operation::RemoveDirectory | Operation::ListDirectory => {
                Self::Directory
            }
            Operation::RenewLease | Operation::EndLease | Operation::WatchLeases => Self::Leases,
            Operation::PutBlob
            | Operation::GetBlob
            | Operation::RemoveBlobs
            | Operation::PutSnapshot
            | Operation::GetSnapshot
            | Operation::RemoveSnapshot => Self::Blobs,
            Operation::PutJob
            | Operation::RemoveJob
            | Operation::NextJob
            | Operation::KeepJobAlive
            | Operation::FinishJob
            | Operation::GiveJobBack
            | Operation::Claim => Self::ToolQueue,
            Operation::Follow
            | Operation::PublishFrame
            | Operation::Subscribe
            | Operation::ListenAtDoor
            | Operation::AskDoor
            | Operation::CancelJob
            | Operation::TellProgress
            | Operation::ListenForJobs => return None,
        })
    }
}

/// Which streams have no leader now: one value for all nodes of a store.
#[derive(Debug, Default)]
pub struct Elections {
    until: Mutex<BTreeMap<Stream, Instant>>,
}

impl Elections {
    /// A stream loses its leader, and has another one after `lasts`.
    pub fn begin(&self, stream: Stream, lasts: Duration) {
        lock(&self.until).insert(stream, Instant::now() + lasts);
    }

    /// Every stream has its leader.
    pub fn end(&self) {
        lock(&self.until).clear();
    }

    /// How long a call finds no leader.
    pub(super) fn left(&self, operation: Operation) -> Option<Duration> {
        let stream = Stream::of(operation)?;
        let until = lock(&self.until).get(&stream).copied()?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}
