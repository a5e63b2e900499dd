//! The one handle to sessions: admission, reading, following.

mod admit;
mod damage;
mod decided;
mod follow;
mod fork;
mod over;
mod read;
mod repair;
mod repaired;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_util::stream::BoxStream;
use steadfast_core::event::Verdict;
use steadfast_core::id::{NodeId, Seq};
use steadfast_core::session::Session;
use steadfast_protocol::live::LiveFrame;
use steadfast_protocol::record::Record;
use steadfast_store::error::WriteError;
use thiserror::Error;

use crate::agent::Agents;
use crate::doors::{Doors, Knock};
use crate::host::Host;
use crate::open::OpenError;
use crate::remote::JobFigures;
use crate::webhook::{Webhook, WebhookFigures};

pub(crate) use admit::KnockError;
pub use damage::{Damage, LostRow, RowState};
pub(crate) use decided::known_answer;
pub use fork::ForkError;
pub use repair::{RepairError, Repaired};
use repaired::RepairedSessions;

/// Sessions of this node, running and idle. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

/// The same, without keeping it alive.
pub(crate) struct WeakSessions(Weak<Shared>);

impl WeakSessions {
    pub(crate) fn upgrade(&self) -> Option<Sessions> {
        let shared = self.0.upgrade()?;
        Some(Sessions { shared })
    }
}

struct Shared {
    host: Arc<Host>,
    doors: Arc<Doors>,
    draining: AtomicBool,
    repaired: RepairedSessions,
}

impl Sessions {
    pub(crate) fn new(host: Arc<Host>, doors: Arc<Doors>) -> Self {
        let draining = AtomicBool::new(false);
        Self {
            shared: Arc::new(Shared {
                host,
                doors,
                draining,
                repaired: RepairedSessions::default(),
            }),
        }
    }

    pub(crate) fn downgrade(&self) -> WeakSessions {
        WeakSessions(Arc::downgrade(&self.shared))
    }

    /// The configured agents.
    pub fn agents(&self) -> &Agents {
        &self.shared.host.agents
    }

    /// This process.
    pub fn node(&self) -> &NodeId {
        &self.shared.host.node
    }

    /// How many sessions are in memory.
    pub fn in_memory(&self) -> usize {
        self.shared.doors.len()
    }

    /// What happened to jobs of remote tools on this node.
    pub fn jobs(&self) -> JobFigures {
        self.shared.host.jobs.figures()
    }

    /// What happened to events for the webhook on this node; `None`: there is no webhook.
    pub fn webhook(&self) -> Option<WebhookFigures> {
        self.shared.host.webhook.as_ref().map(Webhook::figures)
    }

    /// Whether this node lets go of its sessions and takes no commands.
    pub fn is_draining(&self) -> bool {
        self.shared.draining.load(Ordering::Acquire)
    }

    /// Takes no more commands and lets go of every session at its next safe point: model calls and
    /// tools that run may end within the grace, then they are cancelled. Ends when no session is in
    /// memory.
    pub async fn drain(&self) {
        self.shared.draining.store(true, Ordering::Release);
        let doors = &self.shared.doors;
        doors.close();
        for door in doors.all() {
            // Who is gone already has let go.
            let _ = doors.knock(&door, Knock::Drain).await;
        }
        doors.emptied().await;
    }
}

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
    /// The store has no room left: nothing happened, try again when it has.
    #[error("the store has no room left: {0}")]
    StoreFull(String),
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

impl From<WriteError> for AdmitError {
    /// Of a blob beside the session: until something names it, it changes nothing.
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Full(detail) => Self::StoreFull(detail),
            WriteError::Refused(detail) => Self::TooLarge(detail),
            WriteError::Unavailable(_) | WriteError::Unknown(_) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
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

impl From<OpenError> for LoadError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Unavailable(detail) => Self::Unavailable(detail),
            OpenError::Quarantined { code, detail } => {
                Self::Quarantined(format!("{code}: {detail}"))
            }
            OpenError::NewerVersion(detail) => Self::NewerVersion(detail),
        }
    }
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
