//! The one handle to sessions: admission, reading, following.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use steadfast_core::command::Command;
use steadfast_core::event::Verdict;
use steadfast_core::id::{Seq, SessionKey, Timestamp};
use steadfast_core::session::Session;
use steadfast_protocol::live::LiveFrame;
use steadfast_protocol::record::Record;
use thiserror::Error;

/// What became of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// It is decided, and if anything changed, durably so.
    Decided {
        /// The answer; a repeated command gets the first one's.
        verdict: Verdict,
        /// The state after it, for the receipt.
        session: Arc<Session>,
        /// Whether this very call made it so; `false` for a repetition.
        first: bool,
    },
    /// It is durable in the session's mailbox and will be decided.
    Accepted,
}

/// Why a command was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AdmitError {
    /// The store cannot be reached: nothing happened, try again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Nobody knows: send the same command under the same id again.
    #[error("the outcome is unknown: {0}")]
    OutcomeUnknown(String),
    /// Too much waits for this session: nothing happened.
    #[error("the session's mailbox is full")]
    MailboxFull,
    /// The session's log cannot be read: nothing happened; an operator must repair it.
    #[error("the session is quarantined: {0}")]
    Quarantined(String),
    /// The agent that the session belongs to is not configured here.
    #[error("agent {0} is not configured")]
    AgentUnknown(String),
    /// The command is too large even after its parts were moved to blobs.
    #[error("the command is too large: {0}")]
    TooLarge(String),
    /// This node lets go of its sessions: try another, or later.
    #[error("the node is draining")]
    Draining,
}

/// Why a session could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The store cannot be reached: try again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Its log cannot be read.
    #[error("the session is quarantined: {0}")]
    Quarantined(String),
    /// Its log was written by a newer release.
    #[error("the session was written by a newer release: {0}")]
    NewerVersion(String),
}

/// One thing that a follower of a session receives, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// A committed Record, possibly cut to the events after the cursor.
    Record {
        /// Number of the first event that counts.
        from: Seq,
        /// The Record.
        record: Arc<Record>,
    },
    /// A live frame of the open step.
    Live(Arc<LiveFrame>),
    /// All that is committed so far was given; sent once before live frames begin.
    CaughtUp {
        /// Number of the last event.
        seq: Seq,
    },
}

/// A stream of a session's news.
pub type Follower = BoxStream<'static, Result<Followed, LoadError>>;

/// The wall clock as a port, so that tests and the simulator own time.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now(&self) -> Timestamp;
}

/// A command for [`Sessions::admit`], with where it goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The session.
    pub key: SessionKey,
    /// What is asked.
    pub command: Command,
}
