//! Faults of the mailboxes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;

use super::line::Line;
use super::operation::{Fault, Operation};
use crate::error::{ReadError, WriteError};
use crate::local::lock;
use crate::mailbox::{Delivery, Lane, Letter, MailSeq, Mailbox, SendError};
use crate::stores::Stores;

pub(super) struct FaultyMailbox {
    inner: Arc<dyn Mailbox>,
    line: Arc<Line>,
    /// Deliveries that come once more; as many as were drawn since the last call, so at most one
    /// for each caller.
    repeated: Mutex<VecDeque<Delivery>>,
}

impl FaultyMailbox {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.mailbox),
            line: Arc::clone(line),
            repeated: Mutex::default(),
        }
    }
}

#[async_trait]
impl Mailbox for FaultyMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        let inner = Arc::clone(&self.inner);
        let (session, id) = (session.clone(), id.to_owned());
        self.line
            .write(Operation::SendLetter, async move {
                inner.send(&session, lane, &id, bytes).await
            })
            .await
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        self.line.read(Operation::PendingLetters).await?;
        self.inner.pending(session, after, limit).await
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        let (inner, session) = (Arc::clone(&self.inner), session.clone());
        self.line
            .write_loosely(Operation::AcknowledgeLetters, async move {
                inner.acknowledge(&session, up_to).await
            })
            .await
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        let next = async {
            let repeated = lock(&self.repeated).pop_front();
            match repeated {
                Some(delivery) => Ok(delivery),
                None => self.inner.next().await,
            }
        };
        let (delivery, fault) = self.line.wait(Operation::NextDelivery, next).await?;
        if fault == Some(Fault::Repeat) {
            lock(&self.repeated).push_back(delivery.clone());
        }
        Ok(delivery)
    }

    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        let inner = Arc::clone(&self.inner);
        self.line
            .write(Operation::GiveBack, async move {
                inner.give_back(delivery, delay).await
            })
            .await
    }
}
