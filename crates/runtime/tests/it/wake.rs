//! What is read to open a session: bounded, however long it has lived.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::command::CommandBody;
use steadfast_core::content::{BlobHash, BlobRef, Finish, ModelReply, ReplyPart, Stored, Usage};
use steadfast_core::event::{Rejection, Verdict};
use steadfast_core::id::{CommandId, Epoch, NodeId, Seq, SessionKey, Timestamp};
use steadfast_core::input::{Activate, Input, Policy};
use steadfast_core::receipt::End;
use steadfast_core::session::Session;
use steadfast_core::{apply, decide, outstanding};
use steadfast_protocol::record::{self, Cause, Entry, Record, RecordHash};
use steadfast_runtime::sessions::{Admission, AdmitError, LoadError};
use steadfast_store::blobs::Blobs;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{Append, AroundLog, Log, ReadFrom, StoredRecord, Tail};
use steadfast_store::snapshots::Snapshots;

use crate::world::{World, command, key, message, script};

/// Bytes read so far.
#[derive(Default)]
struct Reads {
    log: AtomicU64,
    snapshots: AtomicU64,
    blobs: AtomicU64,
}

impl Reads {
    /// Of log, snapshots and blobs; counts anew.
    fn take(&self) -> [u64; 3] {
        [&self.log, &self.snapshots, &self.blobs].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

struct Counted<P: ?Sized> {
    inner: Arc<P>,
    reads: Arc<Reads>,
}

#[async_trait]
impl AroundLog for Counted<dyn Log> {
    fn inner(&self) -> &dyn Log {
        &*self.inner
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let records = self.inner.read(session, from, limit).await?;
        let bytes: usize = records.iter().map(|record| record.bytes.len()).sum();
        self.reads.log.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(records)
    }
}

#[async_trait]
impl Snapshots for Counted<dyn Snapshots> {
    /// Takes its time, as that of a long session does.
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<(), WriteError> {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        self.inner.put(session, bytes).await
    }

    async fn get(&self, session: &SessionKey) -> Result<Option<Bytes>, ReadError> {
        let snapshot = self.inner.get(session).await?;
        let bytes = snapshot.as_ref().map_or(0, Bytes::len) as u64;
        self.reads.snapshots.fetch_add(bytes, Ordering::Relaxed);
        Ok(snapshot)
    }

    async fn remove(&self, session: &SessionKey) -> Result<(), WriteError> {
        self.inner.remove(session).await
    }
}

#[async_trait]
impl Blobs for Counted<dyn Blobs> {
    async fn put(&self, session: &SessionKey, bytes: Bytes) -> Result<BlobRef, WriteError> {
        self.inner.put(session, bytes).await
    }

    async fn get(&self, session: &SessionKey, hash: BlobHash) -> Result<Option<Bytes>, ReadError> {
        let blob = self.inner.get(session, hash).await?;
        let bytes = blob.as_ref().map_or(0, Bytes::len) as u64;
        self.reads.blobs.fetch_add(bytes, Ordering::Relaxed);
        Ok(blob)
    }

    async fn remove_all(&self, session: &SessionKey) -> Result<(), WriteError> {
        self.inner.remove_all(session).await
    }
}

fn counted(world: &mut World) -> Arc<Reads> {
    let reads = Arc::new(Reads::default());
    let stores = &mut world.stores;
    stores.log = Arc::new(Counted {
        inner: Arc::clone(&stores.log),
        reads: Arc::clone(&reads),
    });
    stores.snapshots = Arc::new(Counted {
        inner: Arc::clone(&stores.snapshots),
        reads: Arc::clone(&reads),
    });
    stores.blobs = Arc::new(Counted {
        inner: Arc::clone(&stores.blobs),
        reads: Arc::clone(&reads),
    });
    reads
}

/// A session's history made by the state machine alone, as its owner would have written it.
struct Talk {
    session: Session,
    entries: Vec<Entry>,
}

impl Talk {
    fn input(&mut self, input: &Input, cause: Cause) {
        let at = Timestamp(self.session.at.0 + 1);
        let events = decide(&self.session, input, at).events;
        for event in &events {
            apply(&mut self.session, at, event);
        }
        self.entries.push(Entry { cause, at, events });
    }

    fn turn(&mut self, id: &str) {
        let command = message(id, "Where is my order?");
        let cause = Cause::Command {
            id: command.id.clone(),
        };
        let receipted = false;
        self.input(&Input::Command { command, receipted }, cause);
        let effect = outstanding(&self.session)[0];
        let text = "It is on its way, and it will be there tomorrow.".into();
        let reply = ModelReply {
            wire: "w".into(),
            model: "m".into(),
            parts: vec![Stored::Inline(ReplyPart::Text { text, native: None })],
            calls: Vec::new(),
            finish: Finish::Stop,
            usage: Usage::default(),
        };
        let triage = Vec::new();
        let input = Input::ModelReplied {
            effect,
            reply,
            triage,
            unfit: None,
        };
        self.input(&input, Cause::Effect { effect });
    }
}

async fn write_history(world: &World, key: &SessionKey, turns: usize) {
    let node = NodeId::new("before").unwrap();
    let mut talk = Talk {
        session: Session::new(key.clone()),
        entries: Vec::new(),
    };
    let activate = Activate {
        node: node.clone(),
        epoch_min: Epoch(0),
        policy: Policy::default(),
        open_calls: Vec::new(),
    };
    talk.input(&Input::Activate(activate), Cause::Activate);
    let (mut tail, mut prev, mut seq) = (Tail::EMPTY, RecordHash::NONE, Seq(0));
    for number in 0..=turns {
        if number == turns {
            talk.input(&Input::Release, Cause::Release);
        } else {
            talk.turn(&format!("turn-{number}"));
        }
        if number % 8 != 0 && number != turns {
            continue;
        }
        let record = Record {
            first_seq: seq.next(),
            epoch: talk.session.epoch,
            prev,
            entries: std::mem::take(&mut talk.entries),
        };
        let bytes = record::encode(&record).unwrap();
        (prev, seq) = (RecordHash::of(&bytes), record.last_seq());
        let append = Append {
            hash: prev,
            bytes: bytes.into(),
            first_seq: record.first_seq,
            last_seq: seq,
            epoch: record.epoch,
            node: node.clone(),
        };
        tail = world.stores.log.append(key, tail, append).await.unwrap();
    }
}

fn says_done() -> String {
    script(serde_json::json!([{ "text": "done" }]))
}

/// What is read by the third node that wakes the session; the first reads the whole log.
async fn read_to_wake(turns: usize) -> [u64; 3] {
    let mut world = World::new();
    let reads = counted(&mut world);
    let key = key("s");
    write_history(&world, &key, turns).await;
    for round in 0..3 {
        let node = world.start().await;
        reads.take();
        let id = format!("round-{round}");
        node.send(&key, &id, &says_done()).await;
        if round == 2 {
            break;
        }
        node.end_of(&key, &id).await;
        node.handle.shutdown(std::future::pending()).await;
    }
    reads.take()
}

#[tokio::test(start_paused = true)]
async fn a_session_of_any_age_is_opened_from_few_bytes() {
    let [log_bytes, snapshot_bytes, _] = read_to_wake(10).await;
    assert!(log_bytes < 20_000, "{log_bytes}");
    assert!(snapshot_bytes < 20_000, "{snapshot_bytes}");
    for turns in [1_000, 4_000] {
        let [log_bytes, snapshot_bytes, blob_bytes] = read_to_wake(turns).await;
        assert!(log_bytes < 20_000, "{turns}: {log_bytes}");
        // The open chunk of the history, names of the others, the newest receipts.
        assert!(snapshot_bytes < 180_000, "{turns}: {snapshot_bytes}");
        // A first piece of the history, for the model; and sealed receipts, once the turn has begun.
        let receipts_bytes = 60 * turns as u64;
        assert!(
            blob_bytes < 70_000 + receipts_bytes,
            "{turns}: {blob_bytes}"
        );
    }
}

/// A session of so many turns that is not in memory, and whose sealed receipts stand beside its
/// snapshot.
async fn long_session(world: &World) -> SessionKey {
    let key = key("s");
    write_history(world, &key, 4_000).await;
    let node = world.start().await;
    node.send(&key, "first", &says_done()).await;
    node.end_of(&key, "first").await;
    node.handle.shutdown(std::future::pending()).await;
    key
}

fn answered(admission: Admission) -> (Verdict, bool) {
    match admission {
        Admission::Decided { verdict, first, .. } => (verdict, first),
        Admission::Accepted => panic!("it is in the mailbox"),
    }
}

const CONFLICT: Verdict = Verdict::Rejected {
    reason: Rejection::CommandConflict,
};

#[tokio::test(start_paused = true)]
async fn a_message_from_long_ago_gets_its_first_answer() {
    let world = World::new();
    let key = long_session(&world).await;
    let node = world.start().await;
    let seq = node.sessions.load(&key).await.unwrap().seq;
    let again = node.send(&key, "turn-5", "Where is my order?").await;
    assert!(matches!(answered(again), (Verdict::Accepted { .. }, false)));
    let other = node.send(&key, "turn-6", "Where is it?").await;
    assert_eq!(answered(other), (CONFLICT, true));
    // Nothing followed, and nothing was taken over for it.
    assert_eq!(node.sessions.load(&key).await.unwrap().seq, seq);
    let withdraw = CommandBody::Withdraw {
        message: CommandId::new("turn-7").unwrap(),
    };
    let withdrawn = node.sessions.admit(&key, command("w", withdraw)).await;
    let reason = Rejection::MessageNotQueued;
    let refused = (Verdict::Rejected { reason }, true);
    assert_eq!(answered(withdrawn.unwrap()), refused);
}

#[tokio::test(start_paused = true)]
async fn a_message_from_long_ago_can_be_replaced() {
    let world = World::new();
    let key = long_session(&world).await;
    let node = world.start().await;
    let mut edit = message("edit", &says_done());
    if let CommandBody::Submit { options, .. } = &mut edit.body {
        options.replaces = Some(CommandId::new("turn-8").unwrap());
    }
    let edited = node.sessions.admit(&key, edit).await.unwrap();
    assert!(matches!(answered(edited), (Verdict::Accepted { .. }, true)));
}

#[tokio::test(start_paused = true)]
async fn a_message_from_long_ago_is_known_though_its_receipt_must_be_read_from_the_log() {
    let world = World::new();
    let key = long_session(&world).await;
    world.stores.blobs.remove_all(&key).await.unwrap();
    let node = world.start().await;
    // Its owner begins without the receipts, finds that they are gone, and makes room for the next.
    node.send(&key, "second", &says_done()).await;
    // Its history is gone, too.
    assert_eq!(node.end_of(&key, "second").await, End::Failed);
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let again = node.send(&key, "turn-5", "Where is my order?").await;
    assert!(matches!(answered(again), (Verdict::Accepted { .. }, false)));
    let loaded = node.sessions.load(&key).await.unwrap();
    assert_eq!(loaded.receipts.len(), 4_002);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_without_the_receipts_that_were_asked_for_is_dropped() {
    let world = World::new();
    let key = long_session(&world).await;
    world.stores.blobs.remove_all(&key).await.unwrap();
    let node = world.start().await;
    let asked = || message("turn-5", "Where is my order?");
    // Who asks again is answered from the log.
    let first = node.sessions.admit(&key, asked()).await;
    assert!(
        matches!(first, Err(AdmitError::Unavailable(_))),
        "{first:?}"
    );
    let again = node.sessions.admit(&key, asked()).await.unwrap();
    assert!(matches!(answered(again), (Verdict::Accepted { .. }, false)));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_whose_receipts_are_gone_is_not_used() {
    let mut world = World::new();
    let reads = counted(&mut world);
    let key = key("s");
    write_history(&world, &key, 4_000).await;
    let node = world.start().await;
    node.send(&key, "first", &says_done()).await;
    node.end_of(&key, "first").await;
    node.handle.shutdown(std::future::pending()).await;
    let whole = world.start().await;
    reads.take();
    let before = whole.sessions.load(&key).await.unwrap();
    assert!(reads.take()[0] < 20_000);
    world.stores.blobs.remove_all(&key).await.unwrap();
    let after = whole.sessions.load(&key).await.unwrap();
    assert!(reads.take()[0] > 1_000_000);
    assert_eq!(after.receipts, before.receipts);
    // What was read at such length stands as a snapshot again.
    let again = whole.sessions.load(&key).await.unwrap();
    assert!(reads.take()[0] < 20_000);
    assert_eq!(again.receipts, before.receipts);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_opened_though_a_reader_lags_behind_its_tail() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &says_done()).await;
    node.end_of(&key, "m1").await;
    node.handle.shutdown(std::future::pending()).await;
    let reader = world.start().await;
    let whole = reader.sessions.load(&key).await.unwrap();
    world.stores.snapshots.remove(&key).await.unwrap();
    world.log.stale(3);
    let again = reader.sessions.load(&key).await.unwrap();
    assert_eq!((again.seq, world.log.stale_left()), (whole.seq, 0));
    // One that never catches up is told as such, and may be asked again.
    world.log.stale(1_000);
    let behind = reader.sessions.load(&key).await;
    assert!(
        matches!(behind, Err(LoadError::Unavailable(_))),
        "{behind:?}"
    );
    world.log.stale(0);
    assert_eq!(reader.sessions.load(&key).await.unwrap().seq, whole.seq);
}
