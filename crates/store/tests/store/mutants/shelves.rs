//! Indexes, directories, blobs, snapshots and frames that break a rule.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::{NodeId, SessionId, SessionKey, TenantId, Timestamp};
use steadfast_protocol::live::LiveFrame;
use steadfast_store::active::{ActiveEntry, ActiveIndex};
use steadfast_store::blobs::Blobs;
use steadfast_store::directory::{Directory, DirectoryEntry, DirectoryQuery};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::live::{Live, LiveSignal};
use steadfast_store::snapshots::Snapshots;
use steadfast_store::suite::{Subject, active, blobs, directory, live, snapshots};

use super::{broken, fails};
use crate::samples::session;

/// One bug for each port.
struct Broken<T: ?Sized>(Arc<T>);

/// Removes entries whatever their version.
#[async_trait]
impl ActiveIndex for Broken<dyn ActiveIndex> {
    async fn add(
        &self,
        node: &NodeId,
        session: &SessionKey,
        at: Timestamp,
    ) -> Result<u64, WriteError> {
        self.0.add(node, session, at).await
    }

    async fn remove(
        &self,
        node: &NodeId,
        session: &SessionKey,
        _version: u64,
    ) -> Result<(), WriteError> {
        self.0.remove(node, session, u64::MAX).await
    }

    async fn nodes(&self) -> Result<Vec<NodeId>, ReadError> {
        self.0.nodes().await
    }

    async fn entries(
        &self,
        node: &NodeId,
        _after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<ActiveEntry>, ReadError> {
        self.0.entries(node, None, limit).await
    }
}

/// Lets the last writer win, and filters after it cut the page.
#[async_trait]
impl Directory for Broken<dyn Directory> {
    async fn put(&self, session: &SessionKey, entry: DirectoryEntry) -> Result<(), WriteError> {
        self.0.remove(session).await?;
        self.0.put(session, entry).await
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        self.0.remove(session).await
    }

    async fn list(
        &self,
        tenant: &TenantId,
        query: DirectoryQuery,
    ) -> Result<Vec<(SessionId, DirectoryEntry)>, ReadError> {
        let page = DirectoryQuery {
            after: query.after.clone(),
            limit: query.limit,
            ..DirectoryQuery::default()
        };
        let mut entries = self.0.list(tenant, page).await?;
        entries.retain(|(_, entry)| query.accepts(entry));
        Ok(entries)
    }
}

/// Keeps the blobs of all sessions together.
#[async_trait]
impl Blobs for Broken<dyn Blobs> {
    async fn put(&self, _session: &SessionKey, bytes: Bytes) -> Result<BlobRef, WriteError> {
        self.0.put(&session("all"), bytes).await
    }

    async fn get(&self, _session: &SessionKey, hash: BlobHash) -> Result<Option<Bytes>, ReadError> {
        self.0.get(&session("all"), hash).await
    }

    async fn remove_all(&self, _session: &SessionKey) -> Result<(), WriteError> {
        self.0.remove_all(&session("all")).await
    }
}

/// Keeps the first snapshot.
#[async_trait]
impl Snapshots for Broken<dyn Snapshots> {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        if self.0.get(session).await.unwrap().is_none() {
            self.0.put(session, bytes).await?;
        }
        Ok(())
    }

    async fn get(&self, session: &SessionKey) -> Result<Option<Bytes>, ReadError> {
        self.0.get(session).await
    }

    async fn remove(&self, _session: &SessionKey) -> Result<(), WriteError> {
        Ok(())
    }
}

/// Never tells of a loss.
#[async_trait]
impl Live for Broken<dyn Live> {
    fn publish(&self, session: &SessionKey, frame: Arc<LiveFrame>) {
        self.0.publish(session, frame);
    }

    async fn subscribe(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, LiveSignal>, ReadError> {
        let signals = self.0.subscribe(session).await?;
        let is_frame = |signal: &LiveSignal| matches!(signal, LiveSignal::Frame(_));
        let frames = signals.filter(move |signal| std::future::ready(is_frame(signal)));
        Ok(frames.boxed())
    }
}

fn all_broken() -> Subject {
    broken(|stores| {
        stores.active = Arc::new(Broken(Arc::clone(&stores.active)));
        stores.directory = Arc::new(Broken(Arc::clone(&stores.directory)));
        stores.blobs = Arc::new(Broken(Arc::clone(&stores.blobs)));
        stores.snapshots = Arc::new(Broken(Arc::clone(&stores.snapshots)));
        stores.live = Arc::new(Broken(Arc::clone(&stores.live)));
    })
}

#[tokio::test(start_paused = true)]
async fn broken_shelves_are_found() {
    fails(
        "version",
        active::a_newer_entry_is_not_removed(all_broken()),
    )
    .await;
    fails("page", active::entries_are_listed_in_order(all_broken())).await;
    let outdated = directory::an_outdated_entry_does_not_replace_a_newer_one;
    fails("outdated", outdated(all_broken())).await;
    fails(
        "filter",
        directory::lists_are_filtered_and_paged(all_broken()),
    )
    .await;
    let seen = blobs::sessions_do_not_see_each_others_blobs;
    fails("seen", seen(all_broken())).await;
    let removed = blobs::a_sessions_blobs_are_removed_together;
    fails("removed", removed(all_broken())).await;
    fails(
        "newest",
        snapshots::the_newest_snapshot_is_read(all_broken()),
    )
    .await;
    fails("gone", snapshots::a_removed_snapshot_is_gone(all_broken())).await;
    let slow = live::a_slow_follower_is_told_that_frames_are_lost;
    fails("lost", slow(all_broken())).await;
}
