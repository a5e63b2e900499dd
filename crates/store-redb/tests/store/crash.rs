//! Crashes at random moments, on a disk that keeps what was synced and, of the rest, any part.
//!
//! After each crash: what was acknowledged is there; what was refused is not; what was in doubt is
//! there whole or not at all.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use steadfast_core::content::BlobHash;
use steadfast_core::id::{Epoch, SessionKey, Timestamp};
use steadfast_store::Stores;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{Append, AppendError, ReadFrom, Tail};
use steadfast_store::mailbox::{Lane, MailSeq, SendError};
use steadfast_store_redb::Options;

use crate::disk::Disk;
use crate::samples::{node, open, record, session};

const SEEDS: u64 = 100;
const LIVES: usize = 3;
const SESSIONS: usize = 5;

/// What is known of one session, by its owner.
#[derive(Debug, Default)]
struct Known {
    records: Vec<Append>,
    /// The append whose outcome is not known.
    doubted_record: Option<Append>,
    /// How many Records a purge has removed at least, and at most.
    purged: (usize, usize),
    letters: BTreeMap<MailSeq, Bytes>,
    doubted_letter: Option<Bytes>,
    /// Letters up to here may be gone.
    taken: MailSeq,
    blobs: Vec<(BlobHash, Bytes)>,
    /// Entries of the index that were acknowledged before the last acknowledged append.
    active_for_sure: bool,
    timer: Option<Epoch>,
    next_text: u64,
}

/// Why an owner stops.
struct Stopped;

impl Known {
    async fn live(&mut self, key: &SessionKey, stores: &Stores, random: &mut StdRng) {
        while self.step(key, stores, random).await.is_ok() {}
    }

    async fn step(
        &mut self,
        key: &SessionKey,
        stores: &Stores,
        random: &mut StdRng,
    ) -> Result<(), Stopped> {
        match random.random_range(0..12) {
            0..=4 => self.append(key, stores, random).await,
            5..=6 => self.send(key, stores).await,
            7 => self.take(key, stores).await,
            8 => self.put_blob(key, stores, random).await,
            9 => self.purge(key, stores, random).await,
            10 => self.set_timer(key, stores).await,
            _ => stores
                .snapshots
                .put(key, Bytes::from(vec![7; random.random_range(0..200_000)]))
                .await
                .map_err(|_| Stopped),
        }
    }

    async fn append(
        &mut self,
        key: &SessionKey,
        stores: &Stores,
        random: &mut StdRng,
    ) -> Result<(), Stopped> {
        let added = stores.active.add(&node("n"), key, Timestamp(1)).await;
        added.map_err(|_| Stopped)?;
        self.next_text += 1;
        let text = "x".repeat(random.random_range(0..9_000));
        let count = self.records.len() as u64;
        let append = record(count + 1, &format!("{} {text}", self.next_text));
        match stores.log.append(key, Tail(count), append.clone()).await {
            Ok(tail) => {
                assert_eq!(tail, Tail(count + 1));
                self.records.push(append);
                self.active_for_sure = true;
                Ok(())
            }
            Err(AppendError::Write(WriteError::Unknown(_))) => {
                self.doubted_record = Some(append);
                Err(Stopped)
            }
            Err(AppendError::Write(_)) => Err(Stopped),
            Err(AppendError::Conflict) => panic!("{key} has one owner"),
        }
    }

    async fn send(&mut self, key: &SessionKey, stores: &Stores) -> Result<(), Stopped> {
        self.next_text += 1;
        let bytes = Bytes::from(format!("letter {}", self.next_text));
        let lane = [Lane::Messages, Lane::Control][self.letters.len() % 2];
        match stores.mailbox.send(key, lane, "id", bytes.clone()).await {
            Ok(seq) => {
                let before = self.letters.insert(seq, bytes);
                assert_eq!(before, None, "position {seq:?} was used twice");
                Ok(())
            }
            Err(SendError::Write(WriteError::Unknown(_))) => {
                self.doubted_letter = Some(bytes);
                Err(Stopped)
            }
            Err(SendError::Write(_)) => Err(Stopped),
            Err(SendError::Full) => panic!("the mailbox of {key} is not full"),
        }
    }

    async fn take(&mut self, key: &SessionKey, stores: &Stores) -> Result<(), Stopped> {
        let count = self.letters.len();
        let Some(&seq) = self.letters.keys().nth(count / 2) else {
            return Ok(());
        };
        self.taken = self.taken.max(seq);
        let taken = stores.mailbox.acknowledge(key, seq).await;
        taken.map_err(|_| Stopped)
    }

    async fn put_blob(
        &mut self,
        key: &SessionKey,
        stores: &Stores,
        random: &mut StdRng,
    ) -> Result<(), Stopped> {
        self.next_text += 1;
        let mut bytes = vec![9; random.random_range(0..150_000)];
        bytes.extend(self.next_text.to_be_bytes());
        let bytes = Bytes::from(bytes);
        let blob = stores.blobs.put(key, bytes.clone()).await;
        let blob = blob.map_err(|_| Stopped)?;
        self.blobs.push((blob.hash, bytes));
        Ok(())
    }

    async fn purge(
        &mut self,
        key: &SessionKey,
        stores: &Stores,
        random: &mut StdRng,
    ) -> Result<(), Stopped> {
        let last = self.records.len().saturating_sub(1);
        let through = random.random_range(0..=last);
        self.purged.1 = self.purged.1.max(through);
        let purged = stores.log.purge(key, Tail(through as u64)).await;
        purged.map_err(|_| Stopped)?;
        self.purged.0 = self.purged.0.max(through);
        Ok(())
    }

    async fn set_timer(&mut self, key: &SessionKey, stores: &Stores) -> Result<(), Stopped> {
        self.next_text += 1;
        let epoch = Epoch(self.next_text);
        let set = stores.timers.set(key, epoch, Timestamp(1)).await;
        set.map_err(|_| Stopped)?;
        self.timer = Some(epoch);
        Ok(())
    }

    /// Compares with what a crash left, and goes on from there.
    async fn check(&mut self, key: &SessionKey, stores: &Stores) {
        self.check_log(key, stores).await;
        self.check_mail(key, stores).await;
        for (hash, bytes) in &self.blobs {
            let blob = stores.blobs.get(key, *hash).await.unwrap();
            assert!(blob.as_ref() == Some(bytes), "blob {hash} of {key}");
        }
        let owned = stores.active.entries(&node("n"), None, 100).await.unwrap();
        if self.active_for_sure {
            assert!(owned.iter().any(|entry| entry.session == *key), "{owned:?}");
        }
    }

    async fn check_log(&mut self, key: &SessionKey, stores: &Stores) {
        let told = stores.log.tail(key).await.unwrap();
        if let Some(doubted) = self.doubted_record.take()
            && told.tail == Tail(self.records.len() as u64 + 1)
        {
            self.records.push(doubted);
        }
        assert_eq!(told.tail, Tail(self.records.len() as u64));
        let hash = self.records.last().map(|append| append.hash);
        assert_eq!(told.last.map(|last| last.hash), hash);
        let from = ReadFrom::After(Tail::EMPTY);
        let read = stores.log.read(key, from, 10_000).await.unwrap();
        let purged = self.records.len() - read.len();
        assert!(
            self.purged.0 <= purged && purged <= self.purged.1,
            "{purged} not within {:?}",
            self.purged
        );
        self.purged.0 = purged;
        for (stored, append) in read.iter().zip(&self.records[purged..]) {
            assert!(stored.bytes == append.bytes, "a record of {key}");
            assert_eq!(stored.first_seq, append.first_seq);
            assert_eq!(stored.tail, Tail(append.first_seq.0));
        }
    }

    async fn check_mail(&mut self, key: &SessionKey, stores: &Stores) {
        let after = MailSeq::default();
        let found = stores.mailbox.pending(key, after, 10_000).await.unwrap();
        let doubted = self.doubted_letter.take();
        for letter in &found {
            match self.letters.get(&letter.seq) {
                Some(bytes) => assert_eq!(letter.bytes, *bytes),
                None => assert_eq!(Some(&letter.bytes), doubted.as_ref()),
            }
        }
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|letter| (letter.seq, letter.bytes))
            .collect();
        for seq in self.letters.keys() {
            assert!(*seq <= self.taken || found.contains_key(seq), "{seq:?}");
        }
        self.letters = found;
    }
}

#[test]
fn what_was_acknowledged_outlives_a_crash_at_any_moment() {
    let mut landed = 0;
    let mut lost = 0;
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let (seed_landed, seed_lost) = runtime.block_on(live_and_crash(seed));
        landed += seed_landed;
        lost += seed_lost;
    }
    // Else the test would not look at what it is for.
    assert!(landed > 0 && lost > 0, "{landed} landed, {lost} lost");
}

/// Tells how many appends in doubt were there after the crash, and how many not.
async fn live_and_crash(seed: u64) -> (usize, usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let options = Options {
        sync_delay_ms: random.random_range(0..3),
        check_bytes_max: [0, u64::MAX][random.random_range(0..2)],
        cache_bytes: 1024 * 1024,
        // Mostly so small that rows are being moved at any time.
        journal_bytes: [1, 10_000, 100_000, 4_000_000][random.random_range(0..4)],
        ..Options::default()
    };
    let mut disk = Disk::default();
    let mut sessions: Vec<_> = (0..SESSIONS)
        .map(|n| (session(&format!("s{n}")), Known::default()))
        .collect();
    let (mut landed, mut lost) = (0, 0);
    for life in 0..LIVES {
        let store = open(&disk, options.clone());
        let stores = store.stores();
        for (key, known) in &mut sessions {
            let doubted = known.doubted_record.is_some();
            let before = known.records.len();
            known.check(key, &stores).await;
            landed += usize::from(doubted && known.records.len() > before);
            lost += usize::from(doubted && known.records.len() == before);
        }
        check_timers(&stores, &sessions).await;
        disk.fail_after(random.random_range(0..400 * (life as u64 + 1)));
        let lives = sessions.iter_mut().map(|(key, known)| {
            let mut random = StdRng::seed_from_u64(random.random());
            let stores = stores.clone();
            async move { known.live(key, &stores, &mut random).await }
        });
        join_all(lives).await;
        let reason = store.failed().await;
        assert!(reason.contains("opened anew"), "{reason}");
        let left = disk.crash(&mut random);
        drop(stores);
        assert!(store.close().await.is_err());
        disk = left;
    }
    (landed, lost)
}

/// Every timer that was set fires.
async fn check_timers(stores: &Stores, sessions: &[(SessionKey, Known)]) {
    let mut missing: Vec<_> = sessions
        .iter()
        .filter_map(|(key, known)| Some((key.clone(), known.timer?)))
        .collect();
    while !missing.is_empty() {
        let due = stores.timers.next().await.unwrap();
        missing.retain(|(key, epoch)| (key, epoch) != (&due.session, &due.epoch));
    }
}

#[tokio::test]
async fn without_fsync_a_crash_leaves_the_beginning_of_each_log() {
    let mut lost = 0;
    for seed in 0..30 {
        let mut random = StdRng::seed_from_u64(seed);
        let options = Options {
            require_fsync: false,
            sync_delay_ms: random.random_range(0..5),
            ..Options::default()
        };
        let disk = Disk::default();
        let store = open(&disk, options.clone());
        let log = store.stores().log;
        let mut counts = [0; 3];
        for n in 0..random.random_range(0..200) {
            let key = session(&format!("s{}", n % 3));
            let count = &mut counts[n % 3];
            let append = record(*count + 1, "fast");
            log.append(&key, Tail(*count), append).await.unwrap();
            *count += 1;
        }
        let left = disk.crash(&mut random);
        drop((store, log));
        let store = open(&left, options);
        let log = store.stores().log;
        for (n, count) in counts.into_iter().enumerate() {
            let key = session(&format!("s{n}"));
            let from = ReadFrom::After(Tail::EMPTY);
            let read = log.read(&key, from, 1_000).await.unwrap();
            let read: Vec<_> = read.into_iter().map(|record| record.bytes).collect();
            let all: Vec<_> = (1..=count).map(|seq| record(seq, "fast").bytes).collect();
            assert!(all.starts_with(&read), "{read:?}");
            lost += all.len() - read.len();
        }
        drop(log);
        store.close().await.unwrap();
    }
    assert!(lost > 0, "no crash lost anything");
}

#[tokio::test]
async fn a_failed_disk_ends_the_store_honestly() {
    let disk = Disk::default();
    let store = open(&disk, Options::default());
    let log = store.stores().log;
    let key = session("a");
    let first = log.append(&key, Tail::EMPTY, record(1, "kept")).await;
    assert_eq!(first, Ok(Tail(1)));
    disk.fail_after(0);
    let failed = log.append(&key, Tail(1), record(2, "lost")).await;
    assert!(matches!(failed, Err(AppendError::Write(_))), "{failed:?}");
    let reason = store.failed().await;
    let unavailable = WriteError::Unavailable(reason.clone());
    assert_eq!(
        log.append(&key, Tail(1), record(2, "later")).await,
        Err(AppendError::Write(unavailable))
    );
    let unreadable = ReadError::Unavailable(reason);
    assert_eq!(log.tail(&key).await, Err(unreadable));
    drop(log);
    assert!(store.close().await.is_err());
}
