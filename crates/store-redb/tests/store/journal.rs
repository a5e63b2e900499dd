//! The journal and what is in memory above the tables.

use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, TableDefinition};
use steadfast_store::clock::SystemClock;
use steadfast_store::error::ReadError;
use steadfast_store::log::{ReadFrom, Tail};
use steadfast_store::mailbox::{Lane, MailSeq};
use steadfast_store_redb::{Options, RedbStore};

use crate::disk::Disk;
use crate::samples::{open, record, session};

const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// Rows are being moved at any time.
fn restless() -> Options {
    Options {
        journal_bytes: 20_000,
        ..Options::default()
    }
}

/// Turns the power off; everything that was written survives.
fn cut_off(disk: &Disk, store: RedbStore) -> Disk {
    let mut random = rand::SeedableRng::seed_from_u64(1);
    let left = disk.crash(&mut random);
    drop(store);
    left
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_whole_states_while_rows_are_moved() {
    let disk = Disk::default();
    let store = open(&disk, restless());
    let stores = store.stores();
    let key = session("a");
    let snapshot = |round: u64| {
        // Below and above what goes to its table at once.
        let length = [100, 5_000, 100_000][round as usize % 3];
        Bytes::from(vec![round as u8; length])
    };
    stores.snapshots.put(&key, snapshot(0)).await.unwrap();
    let reader = tokio::spawn({
        let (stores, key) = (stores.clone(), key.clone());
        async move {
            let (mut last, mut reads) = (0, 0);
            while last < 600 {
                let bytes = stores.snapshots.get(&key).await.unwrap();
                let bytes = bytes.unwrap();
                assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                let from = ReadFrom::After(Tail::EMPTY);
                let records = stores.log.read(&key, from, 10_000).await.unwrap();
                let tails: Vec<_> = records.iter().map(|record| record.tail.0).collect();
                assert_eq!(tails, (1..=records.len() as u64).collect::<Vec<_>>());
                assert!(records.len() >= last);
                last = records.len();
                reads += 1;
            }
            reads
        }
    });
    for round in 1..=600 {
        let append = record(round, &"x".repeat(round as usize % 300));
        let appended = stores.log.append(&key, Tail(round - 1), append).await;
        assert_eq!(appended, Ok(Tail(round)));
        stores.snapshots.put(&key, snapshot(round)).await.unwrap();
    }
    assert!(reader.await.unwrap() > 0);
    drop(stores);
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_is_held_in_memory_is_bounded() {
    let disk = Disk::default();
    let store = open(&disk, restless());
    let log = store.stores().log;
    let mut most = 0;
    for n in 0..500 {
        let key = session(&format!("s{}", n % 50));
        let append = record(n / 50 + 1, &"x".repeat(700));
        log.append(&key, Tail(n / 50), append).await.unwrap();
        most = most.max(store.stats().held_bytes);
    }
    // Two layers and one group.
    assert!(1_000 < most && most < 2 * 20_000 + 2_000, "{most}");
    drop(log);
    store.close().await.unwrap();
}

#[tokio::test]
async fn rows_that_were_removed_in_time_never_reach_a_table() {
    let disk = Disk::default();
    let store = open(&disk, Options::default());
    let mailbox = store.stores().mailbox;
    let key = session("a");
    for _ in 0..50 {
        let letter = Bytes::from_static(b"a letter");
        let seq = mailbox.send(&key, Lane::Control, "id", letter).await;
        mailbox.acknowledge(&key, seq.unwrap()).await.unwrap();
    }
    // What became of each letter, and the last acknowledgement, which nothing took along yet.
    assert_eq!(store.stats().held_rows, 51);
    drop(mailbox);
    store.close().await.unwrap();
    let store = open(&disk, Options::default());
    let pending = store.stores().mailbox;
    let pending = pending.pending(&key, MailSeq::default(), 100).await;
    assert_eq!((pending, store.stats().held_rows), (Ok(Vec::new()), 0));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_file_without_a_journal_is_read_and_raised_by_its_first_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let store = RedbStore::open(folder.path(), Options::default()).unwrap();
    let log = store.stores().log;
    let key = session("a");
    log.append(&key, Tail::EMPTY, record(1, "old"))
        .await
        .unwrap();
    drop(log);
    store.close().await.unwrap();
    // As a release without a journal left it.
    let database = Database::create(&file).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(META).unwrap().insert("format", 1).unwrap();
    let journal: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("journal");
    assert!(write.delete_table(journal).unwrap());
    write.commit().unwrap();
    drop(database);
    let format = || {
        let database = Database::open(&file).unwrap();
        let read = database.begin_read().unwrap();
        let format = read.open_table(META).unwrap().get("format").unwrap();
        format.map(|number| number.value())
    };

    let store = RedbStore::open(folder.path(), Options::default()).unwrap();
    assert_eq!(store.stores().log.tail(&key).await.unwrap().tail, Tail(1));
    store.close().await.unwrap();
    assert_eq!(format(), Some(1));

    let store = RedbStore::open(folder.path(), Options::default()).unwrap();
    let log = store.stores().log;
    let appended = log.append(&key, Tail(1), record(2, "new")).await;
    assert_eq!(appended, Ok(Tail(2)));
    drop(log);
    store.close().await.unwrap();
    assert_eq!(format(), Some(2));
}

#[tokio::test]
async fn a_damaged_group_of_the_journal_is_told_and_nothing_is_opened() {
    let disk = Disk::default();
    // Opening does not check the whole file.
    let options = Options {
        check_bytes_max: 0,
        ..Options::default()
    };
    let store = open(&disk, options.clone());
    let log = store.stores().log;
    for seq in 1..=3 {
        let append = record(seq, &format!("record {seq}"));
        log.append(&session("a"), Tail(seq - 1), append)
            .await
            .unwrap();
    }
    drop(log);
    let left = cut_off(&disk, store);
    assert!(left.damage(b"record 2", b"record 9") > 0);
    let refused = RedbStore::open_on(left.source(), options, Arc::new(SystemClock)).err();
    let expected = "the given storage is damaged and cannot be opened: group 2 of its journal is not \
         what was written; the journal holds the latest acknowledged writes of all sessions, and \
         without this group none of those that follow it can be applied. Nothing in it was changed. \
         Put a copy that was made earlier in its place: what was written since that copy is then \
         lost. Without a copy, move the file away and start with an empty store; keep it, as nothing \
         here can read it in part";
    assert_eq!(
        refused.map(|error| error.to_string()).as_deref(),
        Some(expected)
    );
}

#[tokio::test]
async fn a_damaged_page_that_a_row_is_moved_to_harms_no_other_session() {
    let disk = Disk::default();
    let text = "x".repeat(3_000);
    let letter = |name: &str| Bytes::from(format!("to {name} {text}"));
    let store = open(&disk, Options::default());
    let mailbox = store.stores().mailbox;
    for n in 0..20 {
        let name = format!("s{n}");
        let key = session(&name);
        let sent = mailbox.send(&key, Lane::Control, "id", letter(&name));
        sent.await.unwrap();
    }
    drop(mailbox);
    store.close().await.unwrap();

    let options = Options {
        journal_bytes: 1,
        cache_bytes: 0,
        ..Options::default()
    };
    let store = open(&disk, options);
    disk.damage_page(b"to s7 x");
    let mailbox = store.stores().mailbox;
    for _ in 0..3 {
        for n in 0..20 {
            let name = format!("s{n}");
            let key = session(&name);
            let sent = mailbox.send(&key, Lane::Control, "id", letter(&name));
            sent.await.unwrap();
        }
    }
    for n in 0..20 {
        let name = format!("s{n}");
        let after = MailSeq::default();
        let pending = mailbox.pending(&session(&name), after, 100).await;
        match pending {
            // The end of the letters before it stands in the damaged page, too.
            Err(ReadError::Corrupt(_)) if n == 7 || n == 6 => {}
            pending => {
                let letters: Vec<_> = pending
                    .unwrap()
                    .into_iter()
                    .map(|letter| letter.bytes)
                    .collect();
                assert_eq!(letters, vec![letter(&name); 4], "{name}");
            }
        }
    }
    // A row that would go to its table at once goes to the journal when that is damaged.
    let large = Bytes::from(format!("to s7 {}", "x".repeat(20_000)));
    let key = session("s7");
    let sent = mailbox.send(&key, Lane::Control, "id", large);
    sent.await.unwrap();
    // What found no place waits in the journal.
    assert!(store.stats().held_rows > 0);
    drop(mailbox);
    store.close().await.unwrap();
}
