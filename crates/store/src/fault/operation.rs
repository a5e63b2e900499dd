//! What can go wrong where.

use std::time::Duration;

/// A call of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is named after its call")]
pub enum Operation {
    Append,
    Tail,
    Read,
    Follow,
    Purge,
    SendLetter,
    PendingLetters,
    AcknowledgeLetters,
    NextDelivery,
    GiveBack,
    SetTimer,
    NextTimer,
    AcknowledgeTimer,
    AddActive,
    RemoveActive,
    ActiveNodes,
    ActiveEntries,
    PutDirectory,
    RemoveDirectory,
    ListDirectory,
    PutBlob,
    GetBlob,
    RemoveBlobs,
    PutSnapshot,
    GetSnapshot,
    RemoveSnapshot,
    PublishFrame,
    Subscribe,
    RenewLease,
    EndLease,
    WatchLeases,
    ListenAtDoor,
    AskDoor,
    PutJob,
    RemoveJob,
    NextJob,
    KeepJobAlive,
    FinishJob,
    GiveJobBack,
    CancelJob,
    TellProgress,
    ListenForJobs,
    Claim,
}

impl Operation {
    /// Whether it changes what is stored.
    pub fn is_write(self) -> bool {
        match self {
            Self::Append
            | Self::Purge
            | Self::SendLetter
            | Self::AcknowledgeLetters
            | Self::GiveBack
            | Self::SetTimer
            | Self::AcknowledgeTimer
            | Self::AddActive
            | Self::RemoveActive
            | Self::PutDirectory
            | Self::RemoveDirectory
            | Self::PutBlob
            | Self::RemoveBlobs
            | Self::PutSnapshot
            | Self::RemoveSnapshot
            | Self::RenewLease
            | Self::EndLease
            | Self::PutJob
            | Self::RemoveJob
            | Self::KeepJobAlive
            | Self::FinishJob
            | Self::GiveJobBack
            | Self::CancelJob
            | Self::TellProgress
            | Self::Claim => true,
            Self::Tail
            | Self::Read
            | Self::Follow
            | Self::PendingLetters
            | Self::NextDelivery
            | Self::NextTimer
            | Self::ActiveNodes
            | Self::ActiveEntries
            | Self::ListDirectory
            | Self::GetBlob
            | Self::GetSnapshot
            | Self::PublishFrame
            | Self::Subscribe
            | Self::WatchLeases
            | Self::ListenAtDoor
            | Self::AskDoor
            | Self::NextJob
            | Self::ListenForJobs => false,
        }
    }
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A write is done, and its answer is lost: it ends as unknown.
    LostAck,
    /// A write never reaches the store: it ends as unknown.
    LostRequest,
    /// A write ends as unknown and is tried only later, perhaps after reads that do not show it;
    /// fenced as ever.
    Ghost {
        /// How much later, once calls come through.
        delay: Duration,
    },
    /// Nothing is done.
    Unavailable,
    /// A write is refused for good, as by a full disk.
    Refused,
    /// An append meets another owner, who took the session over just before; see [`super::RIVAL`].
    Conflict,
    /// An append conflicts because another one is in flight: nothing is written, the tail has not
    /// moved.
    InFlight,
    /// A read of Records misses the newest.
    Stale {
        /// How many.
        records: usize,
    },
    /// What need not wait for the disk is answered and, as by a crash right after, not done.
    Forgotten,
    /// A delivery or a timer comes once more.
    Repeat,
    /// What was stored comes back changed.
    Corrupt,
    /// A signal or a frame does not come; a question, or its answer.
    Lost,
    /// A question is told that nobody listens, though somebody does.
    NoResponders,
}

impl Fault {
    /// Its name in counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::LostAck => "lost_ack",
            Self::LostRequest => "lost_request",
            Self::Ghost { .. } => "ghost",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::InFlight => "in_flight",
            Self::Stale { .. } => "stale",
            Self::Forgotten => "forgotten",
            Self::Repeat => "repeat",
            Self::Corrupt => "corrupt",
            Self::Lost => "lost",
            Self::NoResponders => "no_responders",
        }
    }

    /// Whether it can happen to a call.
    pub fn fits(self, operation: Operation) -> bool {
        match self {
            Self::LostAck | Self::LostRequest | Self::Ghost { .. } | Self::Refused => {
                operation.is_write()
            }
            Self::Unavailable => operation != Operation::PublishFrame,
            Self::Conflict | Self::InFlight => operation == Operation::Append,
            Self::Stale { .. } => operation == Operation::Read,
            Self::Forgotten => matches!(
                operation,
                Operation::AcknowledgeLetters
                    | Operation::AcknowledgeTimer
                    | Operation::RemoveActive
                    | Operation::PutSnapshot
                    | Operation::KeepJobAlive
                    | Operation::FinishJob
                    | Operation::CancelJob
                    | Operation::TellProgress
            ),
            Self::Repeat => {
                matches!(
                    operation,
                    Operation::NextDelivery | Operation::NextTimer | Operation::NextJob
                )
            }
            Self::Corrupt => matches!(
                operation,
                Operation::Read | Operation::GetBlob | Operation::GetSnapshot
            ),
            Self::Lost => matches!(
                operation,
                Operation::PublishFrame
                    | Operation::Follow
                    | Operation::RenewLease
                    | Operation::AskDoor
            ),
            Self::NoResponders => operation == Operation::AskDoor,
        }
    }
}
