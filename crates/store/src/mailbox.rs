//! The mailbox port, which is also the queue of sessions that need an owner.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;
use thiserror::Error;

use crate::error::{ReadError, WriteError};

/// Letters of one lane that may wait for one session.
pub const LANE_LETTERS_MAX: usize = 1_000;

/// A delivery that is neither acknowledged nor given back comes again after about this long.
pub const DELIVERY_SILENCE: Duration = Duration::from_secs(10);
/// A delivery is given back for this long at most; longer delays are cut.
pub const GIVE_BACK_DELAY_MAX: Duration = Duration::from_secs(60);

/// Position of a letter; letters of one session, both lanes, are ordered by it. Never used twice,
/// also after a letter is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MailSeq(pub u64);

/// Which bound a letter counts against, so that a flood of messages never locks out the cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Messages.
    Messages,
    /// Cancels, approvals, results, wake-ups.
    Control,
}

/// A letter as it stands in the mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Its position.
    pub seq: MailSeq,
    /// Its lane.
    pub lane: Lane,
    /// Its bytes, see `steadfast_protocol::mail`.
    pub bytes: Bytes,
}

/// Why a letter was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SendError {
    /// The lane holds [`LANE_LETTERS_MAX`] letters: certainly not written.
    #[error("the session's mailbox is full")]
    Full,
    /// As for any write.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// News from the queue: a session has mail, of which `up_to` was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Which session.
    pub session: SessionKey,
    /// The newest letter known at this time.
    pub up_to: MailSeq,
    /// How often the letter `up_to` was delivered, from 1.
    pub deliveries: u64,
}

/// Every session's inbox: durable, ordered, bounded.
///
/// 1. `send` answers `Ok` only when the letter is durable; letters of one session keep the order in
///    which they were acknowledged.
/// 2. A letter stays until `acknowledge` removes it; removing twice is harmless. A crash between
///    its decision and its acknowledgement leaves it: its id is then known to the session. So does,
///    in some stores, a crash soon after its acknowledgement, which need not wait for the disk.
/// 3. After [`WriteError::Unknown`] the letter may come now, later, or never.
/// 4. `pending` never misses a letter acknowledged before the call.
/// 5. `next` gives each letter's session to some caller at least once, and again when that caller
///    neither acknowledges nor gives it back for [`DELIVERY_SILENCE`]. One delivery may stand for
///    several letters of its session. A letter newer than every delivery of its session is announced
///    at once, also while one of them is at large. No session waits for ever because another has
///    much mail. It is a hint: the log is the authority, and two callers may hold the same session.
/// 6. `acknowledge` is not fenced: whoever read the letters may remove them, also after the delivery
///    came again to another.
/// 7. Only the caller that got a delivery gives it back; of one that was acknowledged or came again
///    meanwhile it changes nothing that matters.
#[async_trait]
pub trait Mailbox: Send + Sync {
    /// Puts a letter in. `id` names it for people; letters with equal ids are not merged. `Full`
    /// is answered only when the lane holds [`LANE_LETTERS_MAX`] letters of this session.
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError>;

    /// The letters after `after`, in order, at most `limit`.
    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError>;

    /// Removes the session's letters up to and including `up_to`.
    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError>;

    /// Waits for a session with mail. Dropped before it answers, it takes nothing that does not
    /// come again.
    async fn next(&self) -> Result<Delivery, ReadError>;

    /// Gives a session's mail back, to be delivered again after `delay`.
    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError>;
}
