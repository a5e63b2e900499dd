//! Faults of the live frames.

use std::future;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;
use steadfast_protocol::live::LiveFrame;

use super::line::Line;
use super::operation::Operation;
use crate::error::ReadError;
use crate::live::{Live, LiveSignal};
use crate::stores::Stores;

pub(super) struct FaultyLive {
    inner: Arc<dyn Live>,
    line: Arc<Line>,
}

impl FaultyLive {
    pub(super) fn new(inner: &Stores, line: &Arc<Line>) -> Self {
        Self {
            inner: Arc::clone(&inner.live),
            line: Arc::clone(line),
        }
    }
}

#[async_trait]
impl Live for FaultyLive {
    fn publish(&self, session: &SessionKey, frame: Arc<LiveFrame>) {
        let decision = self.line.plan.decide_now(Operation::PublishFrame);
        if decision.fault.is_none() && !self.line.plan.is_silent() {
            self.inner.publish(session, frame);
        }
    }

    async fn subscribe(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, LiveSignal>, ReadError> {
        self.line.read(Operation::Subscribe).await?;
        let plan = Arc::clone(&self.line.plan);
        let signals = self.inner.subscribe(session).await?;
        let heard = signals.filter(move |_| future::ready(!plan.is_silent()));
        Ok(heard.boxed())
    }
}
