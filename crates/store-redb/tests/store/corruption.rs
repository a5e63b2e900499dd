//! Bytes that changed on the disk.

use bytes::Bytes;
use futures_util::future::join_all;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{AppendError, Tail};
use steadfast_store_redb::Options;

use crate::disk::Disk;
use crate::samples::{open, record, session};

#[tokio::test]
async fn a_blob_with_changed_bytes_is_corrupt_and_its_neighbour_is_not() {
    let disk = Disk::default();
    let store = open(&disk, Options::default());
    let blobs = store.stores().blobs;
    let key = session("a");
    let good = blobs.put(&key, Bytes::from_static(b"neighbour")).await;
    let bad = blobs.put(&key, Bytes::from(vec![b'x'; 100_000])).await;
    let (good, bad) = (good.unwrap(), bad.unwrap());
    drop(blobs);
    store.close().await.unwrap();
    assert!(disk.damage(&[b'x'; 60_000], &[b'y'; 60_000]) > 0);

    let store = open(&disk, Options::default());
    let blobs = store.stores().blobs;
    let detail = format!(
        "blob {} of {key}: content is not what was written",
        bad.hash
    );
    assert_eq!(
        blobs.get(&key, bad.hash).await,
        Err(ReadError::Corrupt(detail))
    );
    assert_eq!(
        blobs.get(&key, good.hash).await,
        Ok(Some(Bytes::from_static(b"neighbour")))
    );
    drop(blobs);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_snapshot_is_missing() {
    let disk = Disk::default();
    let store = open(&disk, Options::default());
    let snapshots = store.stores().snapshots;
    let key = session("a");
    let bytes = Bytes::from_static(b"the state of a session");
    snapshots.put(&key, bytes.clone()).await.unwrap();
    assert_eq!(snapshots.get(&key).await, Ok(Some(bytes)));
    drop(snapshots);
    store.close().await.unwrap();
    assert!(disk.damage(b"the state of a session", b"the stage of a session") > 0);

    let store = open(&disk, Options::default());
    assert_eq!(store.stores().snapshots.get(&key).await, Ok(None));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_page_fails_its_sessions_and_no_other() {
    let disk = Disk::default();
    let store = open(&disk, Options::default());
    let log = store.stores().log;
    // Records that fill a page each.
    let text = "x".repeat(3_000);
    for n in 0..20 {
        let append = record(1, &format!("of {n} {text}"));
        let key = session(&format!("s{n}"));
        let appended = log.append(&key, Tail::EMPTY, append).await;
        assert_eq!(appended, Ok(Tail(1)));
    }
    drop(log);
    store.close().await.unwrap();
    disk.damage_page(b"1 of 7 x");

    let store = open(&disk, Options::default());
    let log = store.stores().log;
    let damaged = log.tail(&session("s7")).await;
    assert!(matches!(damaged, Err(ReadError::Corrupt(_))), "{damaged:?}");
    let appends = (0..20).map(|n| {
        let log = &log;
        async move {
            let key = session(&format!("s{n}"));
            (n, log.append(&key, Tail(1), record(2, "next")).await)
        }
    });
    for (n, outcome) in join_all(appends).await {
        match (n, outcome) {
            (7, Err(AppendError::Write(WriteError::Refused(_)))) => {}
            (n, outcome) => assert_eq!((n, outcome), (n, Ok(Tail(2)))),
        }
    }
    drop(log);
    store.close().await.unwrap();
}
