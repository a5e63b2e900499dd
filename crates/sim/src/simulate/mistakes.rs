//! Ports with one mistake each, put back to prove that a run of several nodes finds it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::mailbox::{Delivery, Lane, Letter, MailSeq, Mailbox, SendError};

/// Removes letters as soon as they are read.
pub(super) struct EagerMailbox(pub(super) Arc<dyn Mailbox>);

#[async_trait]
impl Mailbox for EagerMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        self.0.send(session, lane, id, bytes).await
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        let letters = self.0.pending(session, after, limit).await?;
        if let Some(last) = letters.last() {
            let _removed = self.0.acknowledge(session, last.seq).await;
        }
        Ok(letters)
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        self.0.acknowledge(session, up_to).await
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        self.0.next().await
    }

    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        self.0.give_back(delivery, delay).await
    }
}

/// Takes the wake-ups of owners that let go, and keeps none.
pub(super) struct SleepyMailbox(pub(super) Arc<dyn Mailbox>);

#[async_trait]
impl Mailbox for SleepyMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        if id.starts_with("wake-") {
            return Ok(MailSeq(u64::MAX / 2));
        }
        self.0.send(session, lane, id, bytes).await
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        self.0.pending(session, after, limit).await
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        self.0.acknowledge(session, up_to).await
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        self.0.next().await
    }

    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        self.0.give_back(delivery, delay).await
    }
}
