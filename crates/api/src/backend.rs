//! Sessions and stores as the routes see them: the only file that calls them.
//!
//! Each question has a deadline. A read that takes longer is answered with `timed_out`; a command
//! that takes longer has an unknown outcome, and the client is told so.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::command::{Command, CommandBody};
use steadfast_core::content::BlobHash;
use steadfast_core::id::{CommandId, MessageId, Seq, SessionId, SessionKey, TenantId};
use steadfast_core::session::{Existence, Session};
use steadfast_protocol::record::Record;
use steadfast_runtime::agent::{Agents, Drive};
use steadfast_runtime::sessions::{Admission, AdmitError, Damage, Follower, Repaired, Sessions};
use steadfast_store::directory::{DirectoryEntry, DirectoryQuery};

use crate::error::{ErrorCode, Problem};
use crate::messages::outlines::Outlines;
use crate::metrics::Metrics;

/// Sessions behind deadlines.
pub(crate) struct Backend {
    sessions: Sessions,
    patience: Duration,
    metrics: Arc<Metrics>,
    outlines: Outlines,
}

impl Backend {
    pub(crate) fn new(sessions: Sessions, request_ms: u64, metrics: Arc<Metrics>) -> Self {
        Self {
            sessions,
            patience: Duration::from_millis(request_ms),
            metrics,
            outlines: Outlines::default(),
        }
    }

    /// Where the messages of conversations stand.
    pub(crate) fn outlines(&self) -> &Outlines {
        &self.outlines
    }

    /// Asks a session for something.
    pub(crate) async fn admit(
        &self,
        key: &SessionKey,
        id: CommandId,
        body: CommandBody,
    ) -> Result<Admission, Problem> {
        self.admit_driven(key, id, body, None).await
    }

    /// The same with a word about who is to run the turn.
    pub(crate) async fn admit_driven(
        &self,
        key: &SessionKey,
        id: CommandId,
        body: CommandBody,
        drive: Option<Drive>,
    ) -> Result<Admission, Problem> {
        let command = Command { id, body };
        let admitted = self.sessions.admit_driven(key, command, drive);
        let admitted = tokio::time::timeout(self.patience, admitted)
            .await
            .unwrap_or_else(|_| Err(took_too_long()));
        self.metrics.admission(match &admitted {
            Ok(Admission::Decided { .. }) => "decided",
            Ok(Admission::Accepted) => "accepted",
            Err(AdmitError::Unavailable(_)) => "unavailable",
            Err(AdmitError::StoreFull(_)) => "store_full",
            Err(AdmitError::OutcomeUnknown(_)) => "outcome_unknown",
            Err(AdmitError::MailboxFull) => "mailbox_full",
            Err(AdmitError::Quarantined(_)) => "quarantined",
            Err(AdmitError::AgentUnknown(_)) => "agent_unknown",
            Err(AdmitError::TooLarge(_)) => "too_large",
            Err(AdmitError::Draining) => "draining",
        });
        Ok(admitted?)
    }

    /// Tells the session, when what is returned is dropped before it is told to stay silent, that
    /// the client whose request began its turn went away.
    pub(crate) fn watch_client(&self, key: &SessionKey) -> ClientWatch {
        ClientWatch {
            watched: Some((self.sessions.clone(), key.clone())),
        }
    }

    /// The state of a session that exists.
    pub(crate) async fn load(&self, key: &SessionKey) -> Result<Arc<Session>, Problem> {
        let session = self.load_any(key).await?;
        match session.existence {
            Existence::Open(_) => Ok(session),
            Existence::Absent | Existence::Deleting(_) => Err(session_not_found()),
        }
    }

    /// The state of a session that exists, with all that is committed at any node.
    pub(crate) async fn load_newest(&self, key: &SessionKey) -> Result<Arc<Session>, Problem> {
        let session = self.within(self.sessions.load_newest(key)).await?;
        match session.existence {
            Existence::Open(_) => Ok(session),
            Existence::Absent | Existence::Deleting(_) => Err(session_not_found()),
        }
    }

    /// The state of a session, whether it exists or not.
    pub(crate) async fn load_any(&self, key: &SessionKey) -> Result<Arc<Session>, Problem> {
        self.within(self.sessions.load(key)).await
    }

    /// What is committed after an event, and with `live` what is shown before.
    pub(crate) fn follow(&self, key: &SessionKey, after: Seq, live: bool) -> Follower {
        self.sessions.follow(key, after, live)
    }

    /// The state of a session in which a message is over, once it is; without a deadline.
    pub(crate) async fn message_over(
        &self,
        key: &SessionKey,
        id: &MessageId,
    ) -> Result<Arc<Session>, Problem> {
        Ok(self.sessions.message_over(key, id).await?)
    }

    /// Whether a command of this id waits in the session's mailbox.
    pub(crate) async fn has_mail(&self, key: &SessionKey, id: &CommandId) -> Result<bool, Problem> {
        self.within(self.sessions.has_mail(key, id)).await
    }

    /// The Records that hold the events after `after`, in order.
    pub(crate) async fn records(
        &self,
        key: &SessionKey,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Arc<Record>>, Problem> {
        self.within(self.sessions.records(key, after, limit)).await
    }

    /// A tenant's sessions.
    pub(crate) async fn list(
        &self,
        tenant: &TenantId,
        query: DirectoryQuery,
    ) -> Result<Vec<(SessionId, DirectoryEntry)>, Problem> {
        self.within(self.sessions.list(tenant, query)).await
    }

    /// The bytes of a blob.
    pub(crate) async fn blob(
        &self,
        key: &SessionKey,
        hash: BlobHash,
    ) -> Result<Option<Bytes>, Problem> {
        self.within(self.sessions.blob(key, hash)).await
    }

    /// Makes the session `to` with a copy of the transcript of `from`.
    pub(crate) async fn fork(
        &self,
        from: &SessionKey,
        at: Option<Seq>,
        to: &SessionKey,
        id: CommandId,
    ) -> Result<Admission, Problem> {
        let forked = self.sessions.fork(from, at, to, id);
        let forked = tokio::time::timeout(self.patience, forked).await;
        Ok(forked.unwrap_or_else(|_| Err(took_too_long().into()))?)
    }

    /// Ends a session's quarantine.
    pub(crate) async fn repair(
        &self,
        key: &SessionKey,
        id: CommandId,
    ) -> Result<Repaired, Problem> {
        let repaired = tokio::time::timeout(self.patience, self.sessions.repair(key, id)).await;
        Ok(repaired.unwrap_or_else(|_| Err(took_too_long().into()))?)
    }

    /// What is wrong with a quarantined session's log.
    pub(crate) async fn damage(&self, key: &SessionKey) -> Result<Option<Damage>, Problem> {
        self.within(self.sessions.damage(key)).await
    }

    /// What can be read of a quarantined session, and why no more.
    pub(crate) async fn readable(
        &self,
        key: &SessionKey,
    ) -> Result<Option<(Session, String)>, Problem> {
        self.within(self.sessions.readable(key)).await
    }

    /// Whether the store answers.
    pub(crate) async fn probe(&self) -> Result<(), Problem> {
        self.within(self.sessions.probe()).await
    }

    /// The configured agents.
    pub(crate) fn agents(&self) -> &Agents {
        self.sessions.agents()
    }

    async fn within<T, E>(&self, answer: impl Future<Output = Result<T, E>>) -> Result<T, Problem>
    where
        Problem: From<E>,
    {
        match tokio::time::timeout(self.patience, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Problem::new(
                ErrorCode::TimedOut,
                "the store did not answer in time; nothing was changed",
            )),
        }
    }
}

/// That a client waits for its turn.
pub(crate) struct ClientWatch {
    watched: Option<(Sessions, SessionKey)>,
}

impl ClientWatch {
    /// The client was answered.
    pub(crate) fn answered(mut self) {
        self.watched = None;
    }
}

impl Drop for ClientWatch {
    fn drop(&mut self) {
        if let Some((sessions, key)) = self.watched.take() {
            sessions.client_left(&key);
        }
    }
}

/// It may go on, so nobody knows.
fn took_too_long() -> AdmitError {
    AdmitError::OutcomeUnknown("it took too long".into())
}

/// There is no such session, or it is another tenant's.
pub(crate) fn session_not_found() -> Problem {
    Problem::new(
        ErrorCode::SessionNotFound,
        "there is no session of this id; make it with PUT",
    )
}
