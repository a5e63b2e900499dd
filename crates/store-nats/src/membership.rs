//! Leases of nodes on JetStream: a bucket whose values vanish unless they are renewed.
//!
//! What the bucket has stored is told to whoever listens; nobody reads the bucket itself.

use std::sync::Arc;

use async_nats::HeaderMap;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::id::NodeId;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::membership::{LEASE_TTL, LeaseSignal, Membership};

use crate::headers;
use crate::request::Shared;
use crate::subject::{Names, last_token};

/// Name of the bucket.
pub(crate) const BUCKET: &str = "NODES";
/// What stands in the bucket for a lease that was given back.
const ENDED: &str = "PURGE";

/// [`Membership`] on JetStream.
#[derive(Debug)]
pub(crate) struct NatsMembership {
    connection: Shared,
    names: Arc<Names>,
}

impl NatsMembership {
    pub(crate) fn new(connection: Shared, names: Arc<Names>) -> Self {
        Self { connection, names }
    }

    async fn write(&self, node: &NodeId, map: HeaderMap) -> Result<(), WriteError> {
        let subject = self.names.bucket_key(BUCKET, node.as_str());
        self.connection.publish(&subject, map, Bytes::new()).await?;
        Ok(())
    }
}

#[async_trait]
impl Membership for NatsMembership {
    async fn renew(&self, node: &NodeId) -> Result<(), WriteError> {
        let vanishes = format!("{}s", LEASE_TTL.as_secs());
        let map = headers::map(&[(headers::TIME_TO_LIVE, &vanishes)]);
        self.write(node, map).await
    }

    async fn end(&self, node: &NodeId) -> Result<(), WriteError> {
        let vanishes = format!("{}s", LEASE_TTL.as_secs());
        let map = headers::map(&[
            (headers::TIME_TO_LIVE, &vanishes),
            (headers::BUCKET_OPERATION, &ENDED),
            (headers::ROLLUP, &"sub"),
        ]);
        self.write(node, map).await
    }

    async fn watch(&self) -> Result<BoxStream<'static, LeaseSignal>, ReadError> {
        let told = self.connection.client.subscribe(self.names.lease("*"));
        let told = told
            .await
            .map_err(|error| ReadError::Unavailable(error.to_string()))?;
        let link = self.connection.link();
        let signals = stream::unfold((told, link), |(mut told, mut link)| async {
            let signal = tokio::select! {
                changed = link.changed() => {
                    changed.ok()?;
                    LeaseSignal::Interrupted
                }
                news = told.next() => signal(&news?),
            };
            Some((signal, (told, link)))
        });
        Ok(signals.boxed())
    }
}

fn signal(news: &async_nats::Message) -> LeaseSignal {
    let Ok(node) = NodeId::new(last_token(&news.subject)) else {
        return LeaseSignal::Interrupted;
    };
    let operation = news.headers.as_ref();
    let operation = operation.and_then(|map| headers::text(map, headers::BUCKET_OPERATION));
    match operation {
        None => LeaseSignal::Renewed(node),
        Some(_) => LeaseSignal::Ended(node),
    }
}
