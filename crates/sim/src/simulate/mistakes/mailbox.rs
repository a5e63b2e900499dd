//! Mailboxes that lose letters: at once, when they are read, when they are announced, or those that
//! wake a session.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::SessionKey;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::mailbox::{Delivery, Lane, Letter, MailSeq, Mailbox, SendError};

use crate::simulate::setup::Mistake;
use crate::simulate::world::World;

pub(super) struct MistakenMailbox {
    pub(super) inner: Arc<dyn Mailbox>,
    pub(super) mistake: Mistake,
    pub(super) world: World,
}

impl MistakenMailbox {
    fn loses(&self, id: &str) -> bool {
        match self.mistake {
            Mistake::LostMail => self.world.chance(50),
            Mistake::ReleaseLosesWakeUp => id.starts_with("wake-"),
            _ => false,
        }
    }
}

#[async_trait]
impl Mailbox for MistakenMailbox {
    async fn send(
        &self,
        session: &SessionKey,
        lane: Lane,
        id: &str,
        bytes: Bytes,
    ) -> Result<MailSeq, SendError> {
        if self.loses(id) {
            return Ok(MailSeq(u64::MAX / 2));
        }
        self.inner.send(session, lane, id, bytes).await
    }

    async fn pending(
        &self,
        session: &SessionKey,
        after: MailSeq,
        limit: usize,
    ) -> Result<Vec<Letter>, ReadError> {
        let letters = self.inner.pending(session, after, limit).await?;
        if self.mistake == Mistake::MailRemovedWhenRead
            && let Some(last) = letters.last()
        {
            let _removed = self.inner.acknowledge(session, last.seq).await;
        }
        Ok(letters)
    }

    async fn acknowledge(&self, session: &SessionKey, up_to: MailSeq) -> Result<(), WriteError> {
        self.inner.acknowledge(session, up_to).await
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        let delivery = self.inner.next().await?;
        if self.mistake == Mistake::MailRemovedAtDelivery {
            let Delivery { session, up_to, .. } = &delivery;
            let _removed = self.inner.acknowledge(session, *up_to).await;
        }
        Ok(delivery)
    }

    async fn give_back(&self, delivery: Delivery, delay: Duration) -> Result<(), WriteError> {
        self.inner.give_back(delivery, delay).await
    }
}
