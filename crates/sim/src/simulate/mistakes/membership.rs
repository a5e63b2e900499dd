//! A node that takes its own renewals for heard, whatever became of them, and asks nobody whether it
//! lives: while nobody can renew, as in an election, it takes the others' silence for death.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::id::NodeId;
use steadfast_protocol::door::{self, Question as Asked};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::membership::{LeaseSignal, Membership};
use steadfast_store::node_door::{AskError, NodeDoors, Question};
use tokio::sync::broadcast;

/// Own renewals that wait to be heard.
const RENEWALS_MAX: usize = 64;

pub(super) struct HopefulMembership {
    inner: Arc<dyn Membership>,
    own: broadcast::Sender<NodeId>,
}

impl HopefulMembership {
    pub(super) fn new(inner: Arc<dyn Membership>) -> Self {
        Self {
            inner,
            own: broadcast::Sender::new(RENEWALS_MAX),
        }
    }
}

#[async_trait]
impl Membership for HopefulMembership {
    fn is_alone(&self) -> bool {
        self.inner.is_alone()
    }

    async fn renew(&self, node: &NodeId) -> Result<(), WriteError> {
        // Who does not listen yet hears the next one.
        let _nobody = self.own.send(node.clone());
        self.inner.renew(node).await
    }

    async fn end(&self, node: &NodeId) -> Result<(), WriteError> {
        self.inner.end(node).await
    }

    async fn watch(&self) -> Result<BoxStream<'static, LeaseSignal>, ReadError> {
        let others = self.inner.watch().await?;
        let own = stream::unfold(self.own.subscribe(), |mut own| async {
            let node = own.recv().await.ok()?;
            Some((LeaseSignal::Renewed(node), own))
        });
        // In a fixed order: runs must be the same.
        let prefers_left = |(): &mut ()| stream::PollNext::Left;
        Ok(stream::select_with_strategy(own, others, prefers_left).boxed())
    }
}

/// Doors at which it is not asked who lives.
pub(super) struct UnaskedDoors {
    pub(super) inner: Arc<dyn NodeDoors>,
}

#[async_trait]
impl NodeDoors for UnaskedDoors {
    async fn listen(&self, node: &NodeId) -> Result<BoxStream<'static, Question>, ReadError> {
        self.inner.listen(node).await
    }

    async fn ask(
        &self,
        node: &NodeId,
        bytes: Bytes,
        patience: Duration,
    ) -> Result<Bytes, AskError> {
        match door::decode_question(&bytes) {
            Ok(Asked::Alive) => Err(AskError::NoResponders),
            _ => self.inner.ask(node, bytes, patience).await,
        }
    }
}
