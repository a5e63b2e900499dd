//! Random operations against a plain model, on a disk that crashes at any of its calls.
//!
//! Rows are moved from the journal into their tables all the time. After each crash everything is
//! compared: what is left is the state after some operation, not before the last one that was
//! acknowledged as kept.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use steadfast_core::content::BlobHash;
use steadfast_core::id::{AgentName, Epoch, Seq, SessionKey, Timestamp};
use steadfast_store::Stores;
use steadfast_store::directory::{DirectoryEntry, DirectoryQuery, Status};
use steadfast_store::log::{Append, AppendError, ReadFrom, Tail};
use steadfast_store::mailbox::{Lane, MailSeq};
use steadfast_store_redb::Options;

use crate::disk::Disk;
use crate::samples::{open, record, session};

const SEEDS: u64 = 8;
const OPERATIONS: usize = 40;
/// Every so many of the disk's calls a life ends.
const CALLS_APART: u64 = 7;

/// What a session has.
#[derive(Debug, Clone, PartialEq, Default)]
struct Rows {
    tail: u64,
    records: BTreeMap<u64, Bytes>,
    letters: Vec<Bytes>,
    blobs: BTreeMap<BlobHash, Bytes>,
    snapshot: Option<Bytes>,
    entry: Option<DirectoryEntry>,
}

type Model = BTreeMap<SessionKey, Rows>;

#[derive(Debug, Clone)]
enum Operation {
    Append(Append),
    Purge(u64),
    Send(Bytes),
    TakeAll,
    PutBlob(Bytes),
    RemoveBlobs,
    PutSnapshot(Bytes),
    RemoveSnapshot,
    PutEntry(Box<DirectoryEntry>),
    RemoveEntry,
    SetTimer(Epoch),
}

impl Operation {
    fn draw(rows: &Rows, number: u64, random: &mut StdRng) -> Self {
        let content = |random: &mut StdRng| {
            let length = [0, 10, 3_000, 20_000, 150_000][random.random_range(0..5)];
            let mut bytes = number.to_be_bytes().to_vec();
            bytes.resize(8 + length, number as u8);
            Bytes::from(bytes)
        };
        match random.random_range(0..14) {
            0..=3 => {
                let text = "x".repeat([1, 500, 6_000, 30_000][random.random_range(0..4)]);
                Self::Append(record(rows.tail + 1, &format!("{number} {text}")))
            }
            4 => Self::Purge(random.random_range(0..=rows.tail)),
            5 => Self::Send(Bytes::from(format!("letter {number}"))),
            6 => Self::TakeAll,
            7 => Self::PutBlob(content(random)),
            8 => Self::RemoveBlobs,
            9..=10 => Self::PutSnapshot(content(random)),
            11 => Self::RemoveSnapshot,
            12 if random.random() => Self::PutEntry(Box::new(entry(number))),
            12 => Self::RemoveEntry,
            _ => Self::SetTimer(Epoch(number)),
        }
    }

    fn apply(&self, rows: &mut Rows) {
        match self {
            Self::Append(append) => {
                rows.tail += 1;
                rows.records.insert(rows.tail, append.bytes.clone());
            }
            // The last row stays.
            Self::Purge(through) => rows
                .records
                .retain(|number, _| number > through || *number == rows.tail),
            Self::Send(bytes) => rows.letters.push(bytes.clone()),
            Self::TakeAll => rows.letters.clear(),
            Self::PutBlob(bytes) => {
                rows.blobs.insert(BlobHash::of(bytes), bytes.clone());
            }
            Self::RemoveBlobs => rows.blobs.clear(),
            Self::PutSnapshot(bytes) => rows.snapshot = Some(bytes.clone()),
            Self::RemoveSnapshot => rows.snapshot = None,
            Self::PutEntry(entry) => rows.entry = Some(DirectoryEntry::clone(entry)),
            Self::RemoveEntry => rows.entry = None,
            Self::SetTimer(_) => {}
        }
    }

    /// Whether its acknowledgement says that it and all before it are on the disk.
    fn is_kept(&self) -> bool {
        matches!(self, Self::Append(_) | Self::Send(_) | Self::SetTimer(_))
    }

    /// Tells whether it was acknowledged.
    async fn run(&self, key: &SessionKey, before: &Rows, stores: &Stores) -> bool {
        match self {
            Self::Append(append) => {
                let tail = Tail(before.tail);
                match stores.log.append(key, tail, append.clone()).await {
                    Ok(_) => true,
                    Err(AppendError::Write(_)) => false,
                    Err(AppendError::Conflict) => panic!("{key} has one owner"),
                }
            }
            Self::Purge(through) => stores.log.purge(key, Tail(*through)).await.is_ok(),
            Self::Send(bytes) => {
                let sent = stores.mailbox.send(key, Lane::Control, "id", bytes.clone());
                sent.await.is_ok()
            }
            Self::TakeAll => {
                let all = MailSeq(u64::MAX - 1);
                stores.mailbox.acknowledge(key, all).await.is_ok()
            }
            Self::PutBlob(bytes) => stores.blobs.put(key, bytes.clone()).await.is_ok(),
            Self::RemoveBlobs => stores.blobs.remove_all(key).await.is_ok(),
            Self::PutSnapshot(bytes) => stores.snapshots.put(key, bytes.clone()).await.is_ok(),
            Self::RemoveSnapshot => stores.snapshots.remove(key).await.is_ok(),
            Self::PutEntry(entry) => {
                let entry = DirectoryEntry::clone(entry);
                stores.directory.put(key, entry).await.is_ok()
            }
            Self::RemoveEntry => stores.directory.remove(key).await.is_ok(),
            Self::SetTimer(epoch) => stores.timers.set(key, *epoch, Timestamp(1)).await.is_ok(),
        }
    }
}

fn entry(number: u64) -> DirectoryEntry {
    DirectoryEntry {
        agent: AgentName::new("a").unwrap(),
        tags: Vec::new(),
        status: Status::Idle,
        last_turn: None,
        approvals: Vec::new(),
        created_at: Timestamp(1),
        updated_at: Timestamp(number),
        seq: Seq(number),
    }
}

/// All that the store holds, as far as it is known what to ask for.
async fn read_all(stores: &Stores, asked: &[&Model]) -> Model {
    let mut found = Model::new();
    for n in 0..3 {
        let key = session(&format!("s{n}"));
        let tail = stores.log.tail(&key).await.unwrap().tail;
        let from = ReadFrom::After(Tail::EMPTY);
        let records = stores.log.read(&key, from, 10_000).await.unwrap();
        let letters = stores.mailbox.pending(&key, MailSeq::default(), 10_000);
        let mut rows = Rows {
            tail: tail.0,
            records: records
                .into_iter()
                .map(|record| (record.tail.0, record.bytes))
                .collect(),
            letters: letters
                .await
                .unwrap()
                .into_iter()
                .map(|letter| letter.bytes)
                .collect(),
            snapshot: stores.snapshots.get(&key).await.unwrap(),
            ..Rows::default()
        };
        for hash in asked.iter().flat_map(|model| model[&key].blobs.keys()) {
            if let Some(bytes) = stores.blobs.get(&key, *hash).await.unwrap() {
                rows.blobs.insert(*hash, bytes);
            }
        }
        found.insert(key, rows);
    }
    let query = DirectoryQuery {
        limit: 100,
        ..DirectoryQuery::default()
    };
    let tenant = &session("s0").tenant;
    for (id, entry) in stores.directory.list(tenant, query).await.unwrap() {
        found.get_mut(&session(id.as_str())).unwrap().entry = Some(entry);
    }
    found
}

/// One life from an empty disk until the disk fails after so many calls. Tells whether it failed.
async fn live_once(seed: u64, calls: u64) -> bool {
    let mut random = StdRng::seed_from_u64(seed);
    let options = Options {
        sync_delay_ms: 3_600_000,
        cache_bytes: 1024 * 1024,
        check_bytes_max: [0, u64::MAX][random.random_range(0..2)],
        journal_bytes: [1, 4_000, 30_000][random.random_range(0..3)],
        ..Options::default()
    };
    let disk = Disk::default();
    let store = open(&disk, options.clone());
    disk.fail_after(calls);
    let stores = store.stores();
    let empty: Model = (0..3)
        .map(|n| (session(&format!("s{n}")), Rows::default()))
        .collect();
    // The states that a crash may leave, the oldest first.
    let mut states = vec![empty];
    let mut failed = false;
    for number in 1..=OPERATIONS as u64 {
        let mut next = states.last().unwrap().clone();
        let key = session(&format!("s{}", random.random_range(0..3)));
        let rows = next.get_mut(&key).unwrap();
        let operation = Operation::draw(rows, number, &mut random);
        let acknowledged = operation.run(&key, rows, &stores).await;
        operation.apply(rows);
        if acknowledged && operation.is_kept() {
            states.clear();
        }
        states.push(next);
        failed = !acknowledged;
        if failed {
            break;
        }
    }
    if !failed {
        let newest = states.last().unwrap();
        assert_eq!(read_all(&stores, &[newest]).await, *newest, "seed {seed}");
    }
    let left = disk.crash(&mut random);
    drop(stores);
    // It may be broken, or notice only now.
    drop(store.close().await);

    let store = open(&left, options);
    let asked: Vec<&Model> = states.iter().collect();
    let found = read_all(&store.stores(), &asked).await;
    assert!(
        states.contains(&found),
        "seed {seed}, {calls} calls: {found:?} is none of {} states",
        states.len()
    );
    store.close().await.unwrap();
    // Closing moved all; nothing else may have changed.
    let store = open(&left, Options::default());
    assert_eq!(store.stats().held_rows, 0);
    assert_eq!(read_all(&store.stores(), &asked).await, found);
    store.close().await.unwrap();
    failed
}

#[tokio::test]
async fn a_crash_at_any_call_of_the_disk_leaves_a_state_that_was() {
    for seed in 0..SEEDS {
        let mut calls = seed % CALLS_APART;
        while live_once(seed, calls).await {
            calls += CALLS_APART;
        }
    }
}
