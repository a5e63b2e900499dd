//! Faults of the leases.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::id::NodeId;

use super::line::Line;
use super::operation::{Fault, Operation};
use crate::error::{ReadError, WriteError};
use crate::membership::{LeaseSignal, Membership};
use crate::stores::Stores;

pub(super) struct FaultyMembership {
    inner: Arc<dyn Membership>,
    line: Arc<Line>,
}

impl FaultyMembership {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.membership),
            line: Arc::clone(line),
        }
    }
}

#[async_trait]
impl Membership for FaultyMembership {
    fn is_alone(&self) -> bool {
        self.inner.is_alone()
    }

    async fn renew(&self, node: &NodeId) -> Result<(), WriteError> {
        let (inner, node) = (Arc::clone(&self.inner), node.clone());
        let decision = self.line.plan.decide(Operation::RenewLease).await;
        if decision.fault == Some(Fault::Lost) {
            // It is written, and nobody hears of it.
            return Ok(());
        }
        let renew = async move { inner.renew(&node).await };
        self.line
            .write_with(decision.fault, decision.latency, renew)
            .await
    }

    async fn end(&self, node: &NodeId) -> Result<(), WriteError> {
        let (inner, node) = (Arc::clone(&self.inner), node.clone());
        self.line
            .write(Operation::EndLease, async move { inner.end(&node).await })
            .await
    }

    /// What comes while the connection is cut is missed, which is told as soon as it is back.
    async fn watch(&self) -> Result<BoxStream<'static, LeaseSignal>, ReadError> {
        self.line.read(Operation::WatchLeases).await?;
        let plan = Arc::clone(&self.line.plan);
        let mut missed = false;
        let signals = self.inner.watch().await?.flat_map(move |signal| {
            if plan.is_silent() {
                missed = true;
                return stream::iter(Vec::new());
            }
            let interrupted = std::mem::take(&mut missed).then_some(LeaseSignal::Interrupted);
            stream::iter(interrupted.into_iter().chain([signal]).collect::<Vec<_>>())
        });
        Ok(signals.boxed())
    }
}
