//! A disk without room: writes are refused, reads go on, and it works again when there is room.

use std::time::Duration;

use bytes::Bytes;
use steadfast_core::id::Timestamp;
use steadfast_store::active::ActiveEntry;
use steadfast_store::error::WriteError;
use steadfast_store::log::{AppendError, ReadFrom, Tail};
use steadfast_store_redb::Options;

use crate::disk::{Disk, Notices};
use crate::samples::{node, open, record, session};

fn is_refusal(error: &WriteError) -> bool {
    matches!(error, WriteError::Full(reason) if reason == "the disk is full")
}

async fn full_then_not(notices: Notices, check_bytes_max: u64) {
    for journal_bytes in [1, 20_000, Options::default().journal_bytes] {
        full_then_not_with(notices, check_bytes_max, journal_bytes).await;
    }
}

async fn full_then_not_with(notices: Notices, check_bytes_max: u64, journal_bytes: usize) {
    let options = Options {
        check_bytes_max,
        journal_bytes,
        ..Options::default()
    };
    let disk = Disk::default();
    let store = open(&disk, options.clone());
    let stores = store.stores();
    let key = session("a");
    stores
        .log
        .append(&key, Tail::EMPTY, record(1, "before"))
        .await
        .unwrap();
    disk.set_capacity(Some((disk.length() + 100_000, notices)));

    let mut kept = Vec::new();
    let error = loop {
        let blob = Bytes::from(vec![kept.len() as u8; 40_000]);
        match stores.blobs.put(&key, blob.clone()).await {
            Ok(put) => kept.push((put.hash, blob)),
            Err(error) => break error,
        }
    };
    assert!(is_refusal(&error), "{error}");
    for (hash, blob) in &kept {
        assert_eq!(stores.blobs.get(&key, *hash).await, Ok(Some(blob.clone())));
    }
    assert_eq!(stores.log.tail(&key).await.unwrap().tail, Tail(1));

    disk.set_capacity(None);
    // Refused for a moment yet: nothing is tried while there was no room a moment ago.
    let tail = loop {
        match stores.log.append(&key, Tail(1), record(2, "after")).await {
            Ok(tail) => break tail,
            Err(AppendError::Write(error)) => assert!(is_refusal(&error), "{error}"),
            Err(AppendError::Conflict) => panic!("a refused append was written"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(tail, Tail(2));
    drop(stores);
    store.close().await.unwrap();

    let store = open(&disk, options);
    let stores = store.stores();
    for (hash, blob) in kept {
        assert_eq!(stores.blobs.get(&key, hash).await, Ok(Some(blob)));
    }
    let records = stores
        .log
        .read(&key, ReadFrom::After(Tail::EMPTY), 10)
        .await
        .unwrap();
    let read: Vec<_> = records.into_iter().map(|record| record.bytes).collect();
    assert_eq!(read, [record(1, "before").bytes, record(2, "after").bytes]);
    drop(stores);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_grow_refuses_writes_until_it_can() {
    full_then_not(Notices::Length, u64::MAX).await;
    full_then_not(Notices::Length, 0).await;
}

#[tokio::test]
async fn bytes_that_find_no_room_are_refused_until_they_do() {
    full_then_not(Notices::Bytes, u64::MAX).await;
    full_then_not(Notices::Bytes, 0).await;
}

#[tokio::test]
async fn a_large_write_without_room_takes_no_small_one_down() {
    let disk = Disk::default();
    let store = open(&disk, Options::default());
    let stores = store.stores();
    let key = session("a");
    // Room within the file, which the small write needs.
    let room = stores.blobs.put(&key, Bytes::from(vec![1; 300_000])).await;
    room.unwrap();
    stores.blobs.remove_all(&key).await.unwrap();
    disk.set_capacity(Some((disk.length(), Notices::Length)));

    let large = stores.blobs.put(&key, Bytes::from(vec![2; 4_000_000]));
    let small = stores.log.append(&key, Tail::EMPTY, record(1, "small"));
    let (large, small) = tokio::join!(large, small);
    assert!(is_refusal(&large.unwrap_err()));
    assert_eq!(small, Ok(Tail(1)));
    drop(stores);
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_owner_that_was_entered_before_is_entered_after() {
    let disk = Disk::default();
    let options = Options {
        sync_delay_ms: 3_600_000,
        ..Options::default()
    };
    let store = open(&disk, options.clone());
    let stores = store.stores();
    let key = session("a");
    let added = stores.active.add(&node("n"), &key, Timestamp(1)).await;
    let version = added.unwrap();
    disk.set_capacity(Some((disk.length(), Notices::Length)));
    let refused = stores
        .blobs
        .put(&key, Bytes::from(vec![1; 4_000_000]))
        .await;
    assert!(is_refusal(&refused.unwrap_err()));
    disk.set_capacity(None);
    let appended = loop {
        let appended = stores.log.append(&key, Tail::EMPTY, record(1, "a")).await;
        if !matches!(&appended, Err(AppendError::Write(error)) if is_refusal(error)) {
            break appended;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(appended, Ok(Tail(1)));

    let left = disk.crash(&mut rand::SeedableRng::seed_from_u64(1));
    drop((store, stores));
    let store = open(&left, options);
    let entries = store.stores().active.entries(&node("n"), None, 10).await;
    let expected = ActiveEntry {
        node: node("n"),
        session: key,
        at: Timestamp(1),
        version,
    };
    assert_eq!(entries, Ok(vec![expected]));
    store.close().await.unwrap();
}
