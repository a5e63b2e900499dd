//! Faults of the doors of nodes.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::NodeId;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::line::Line;
use super::operation::{Fault, Operation};
use crate::error::ReadError;
use crate::node_door::{AskError, NodeDoors, Question};
use crate::stores::Stores;

pub(super) struct FaultyNodeDoors {
    inner: Arc<dyn NodeDoors>,
    line: Arc<Line>,
}

impl FaultyNodeDoors {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.node_doors),
            line: Arc::clone(line),
        }
    }
}

#[async_trait]
impl NodeDoors for FaultyNodeDoors {
    /// A question that comes while the listener is cut off or stands still is not heard.
    async fn listen(&self, node: &NodeId) -> Result<BoxStream<'static, Question>, ReadError> {
        self.line.read(Operation::ListenAtDoor).await?;
        let plan = Arc::clone(&self.line.plan);
        let questions = self.inner.listen(node).await?;
        let heard = questions.filter(move |_| future::ready(!plan.is_silent()));
        Ok(heard.boxed())
    }

    async fn ask(
        &self,
        node: &NodeId,
        bytes: Bytes,
        patience: Duration,
    ) -> Result<Bytes, AskError> {
        let until = Instant::now() + patience;
        let asked = async {
            let decision = self.line.plan.decide(Operation::AskDoor).await;
            if !decision.latency.is_zero() {
                tokio::time::sleep(decision.latency).await;
            }
            match decision.fault {
                Some(Fault::Unavailable) => Err(AskError::Unavailable("no connection".into())),
                Some(Fault::NoResponders) => Err(AskError::NoResponders),
                // Heard or not, no answer comes.
                Some(Fault::Lost) => {
                    if decision.latency.as_millis() % 2 == 0 {
                        let _answer = self.inner.ask(node, bytes, patience).await;
                    }
                    sleep_until(until).await;
                    Err(AskError::TimedOut)
                }
                _ => self.inner.ask(node, bytes, patience).await,
            }
        };
        timeout_at(until, asked)
            .await
            .unwrap_or(Err(AskError::TimedOut))
    }
}
