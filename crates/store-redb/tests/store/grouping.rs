//! What shares a sync with what.

use std::sync::Arc;

use futures_util::future::join_all;
use steadfast_core::id::{AgentName, Seq, Timestamp};
use steadfast_store::directory::{DirectoryEntry, DirectoryQuery, Status};
use steadfast_store::log::{AppendError, ReadFrom, Tail};
use steadfast_store_redb::Options;

use crate::disk::Disk;
use crate::samples::{node, open, record, session};

/// No sync for what need not be synced.
fn patient() -> Options {
    Options {
        sync_delay_ms: 3_600_000,
        ..Options::default()
    }
}

fn entry(seq: u64) -> DirectoryEntry {
    DirectoryEntry {
        agent: AgentName::new("a").unwrap(),
        tags: Vec::new(),
        status: Status::Idle,
        last_turn: None,
        approvals: Vec::new(),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
        seq: Seq(seq),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_that_wait_share_one_sync_and_a_conflict_harms_none() {
    let disk = Disk::default();
    let store = open(&disk, patient());
    let stores = store.stores();
    let first = stores
        .log
        .append(&session("first"), Tail::EMPTY, record(1, "first"))
        .await;
    assert_eq!(first, Ok(Tail(1)));

    disk.shut_gate();
    let before = disk.syncs();
    let log = Arc::clone(&stores.log);
    let held = tokio::spawn(async move {
        log.append(&session("first"), Tail(1), record(2, "held"))
            .await
    });
    disk.await_held_sync();
    let mut waiting = Vec::new();
    for n in 0..100 {
        let log = Arc::clone(&stores.log);
        waiting.push(tokio::spawn(async move {
            let key = session(&format!("s{}", n / 2));
            log.append(&key, Tail::EMPTY, record(1, &n.to_string()))
                .await
        }));
    }
    while store.stats().waiting < 101 {
        tokio::task::yield_now().await;
    }
    disk.open_gate();
    assert_eq!(held.await.unwrap(), Ok(Tail(2)));
    let outcomes: Vec<_> = join_all(waiting)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    for pair in outcomes.chunks(2) {
        assert!(pair.contains(&Ok(Tail(1))), "{pair:?}");
        assert!(pair.contains(&Err(AppendError::Conflict)), "{pair:?}");
    }
    assert_eq!(disk.syncs() - before, 2);
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_need_not_be_synced_rides_along() {
    let disk = Disk::default();
    let store = open(&disk, patient());
    let stores = store.stores();
    let key = session("a");
    // Room in the file: making it longer costs a sync of its own.
    let room = stores.blobs.put(&key, vec![1; 1_000_000].into()).await;
    room.unwrap();
    stores.blobs.remove_all(&key).await.unwrap();
    let before = disk.syncs();
    for seq in 1..=20 {
        stores.directory.put(&key, entry(seq)).await.unwrap();
        let list = stores
            .directory
            .list(
                &key.tenant,
                DirectoryQuery {
                    limit: 10,
                    ..DirectoryQuery::default()
                },
            )
            .await
            .unwrap();
        assert_eq!(list, [(key.session.clone(), entry(seq))]);
    }
    stores
        .active
        .add(&node("n"), &key, Timestamp(1))
        .await
        .unwrap();
    assert_eq!(disk.syncs(), before);
    stores
        .log
        .append(&key, Tail::EMPTY, record(1, "first"))
        .await
        .unwrap();
    assert_eq!(disk.syncs() - before, 1);

    let left = disk.crash(&mut rand::SeedableRng::seed_from_u64(1));
    drop((store, stores));
    let store = open(&left, patient());
    let entries = store.stores().active.entries(&node("n"), None, 10).await;
    assert_eq!(entries.unwrap().len(), 1);
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_need_not_be_synced_is_synced_when_nothing_else_comes() {
    let disk = Disk::default();
    let store = open(
        &disk,
        Options {
            sync_delay_ms: 1,
            ..Options::default()
        },
    );
    let before = store.stats().fsyncs;
    let directory = store.stores().directory;
    directory.put(&session("a"), entry(1)).await.unwrap();
    while store.stats().fsyncs == before {
        tokio::task::yield_now().await;
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn without_fsync_nothing_waits_for_the_disk() {
    let disk = Disk::default();
    let store = open(
        &disk,
        Options {
            require_fsync: false,
            ..patient()
        },
    );
    let before = disk.syncs();
    let log = store.stores().log;
    let mut tail = Tail::EMPTY;
    for seq in 1..=50 {
        tail = log
            .append(&session("a"), tail, record(seq, "fast"))
            .await
            .unwrap();
    }
    assert_eq!(disk.syncs(), before);
    drop(log);
    store.close().await.unwrap();
    let store = open(&disk, patient());
    let records = store
        .stores()
        .log
        .read(&session("a"), ReadFrom::After(Tail::EMPTY), 100)
        .await
        .unwrap();
    assert_eq!(records.len(), 50);
    store.close().await.unwrap();
}
