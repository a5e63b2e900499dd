//! Bytes that changed on the disk.

use bytes::Bytes;
use steadfast_store::error::ReadError;
use steadfast_store_redb::Options;

use crate::disk::Disk;
use crate::samples::{open, session};

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
