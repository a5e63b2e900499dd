//! Servers that die, stand still and come back.

use std::time::{Duration, Instant};

use bytes::Bytes;
use steadfast_core::id::{Epoch, NodeId, Seq, SessionId, SessionKey, TenantId};
use steadfast_nats_server::{NatsCluster, NatsServer, Settings};
use steadfast_protocol::record::RecordHash;
use steadfast_store::Stores;
use steadfast_store::error::WriteError;
use steadfast_store::log::{Append, AppendError, ReadFrom, Tail};
use steadfast_store_nats::Options;

use crate::brokers::{on_one, on_three, open};

/// Longest election that a test waits for.
const PATIENCE: Duration = Duration::from_secs(90);

fn session(name: &str) -> SessionKey {
    SessionKey {
        tenant: TenantId::new("t").unwrap(),
        session: SessionId::new(name).unwrap(),
    }
}

fn record(seq: u64, text: &str) -> Append {
    let bytes = Bytes::from(format!("{seq} {text}"));
    Append {
        hash: RecordHash::of(&bytes),
        bytes,
        first_seq: Seq(seq),
        last_seq: Seq(seq),
        epoch: Epoch(1),
        node: NodeId::new("n").unwrap(),
    }
}

/// Appends as a writer does: the same bytes after the same token until the outcome is known.
/// Gives the new tail and how often nothing was known.
async fn append_surely(
    stores: &Stores,
    key: &SessionKey,
    expected: Tail,
    append: &Append,
) -> (Tail, usize) {
    let began = Instant::now();
    let mut failures = 0;
    loop {
        match stores.log.append(key, expected, append.clone()).await {
            Ok(tail) => return (tail, failures),
            Err(AppendError::Conflict) => {
                let told = stores.log.tail(key).await;
                if let Ok(told) = told
                    && told.tail > expected
                {
                    // Nobody else writes here, so an earlier try has landed.
                    assert_eq!(told.last.map(|last| last.hash), Some(append.hash));
                    return (told.tail, failures);
                }
            }
            Err(AppendError::Write(WriteError::Refused(reason))) => panic!("{reason}"),
            Err(AppendError::Write(_)) => {
                failures += 1;
            }
        }
        assert!(began.elapsed() < PATIENCE, "no outcome within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Which server leads the stream of the log.
async fn leader(cluster: &NatsCluster) -> String {
    let client = async_nats::connect(cluster.urls()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let stream = context.get_stream("SF_LOG_0").await.unwrap();
    let info = stream.get_info().await.unwrap();
    info.cluster.unwrap().leader.unwrap()
}

async fn hashes(stores: &Stores, key: &SessionKey, count: usize) -> Vec<Bytes> {
    let began = Instant::now();
    loop {
        let read = stores.log.read(key, ReadFrom::Seq(Seq(1)), 1_000).await;
        if let Ok(read) = read
            && read.len() >= count
        {
            return read.into_iter().map(|record| record.bytes).collect();
        }
        assert!(began.elapsed() < PATIENCE, "the records are not read");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_is_ridden_out() {
    let mut cluster = NatsCluster::start(true);
    let store = open(&on_three(&cluster)).await;
    let (stores, key) = (store.stores(), session("a"));
    let (mut tail, mut written, mut failures) = (Tail::EMPTY, Vec::new(), 0);
    for seq in 1..=60 {
        if seq == 20 {
            let leader = leader(&cluster).await;
            cluster.server(&leader).kill();
        }
        let append = record(seq, "through an election");
        let (next, failed) = append_surely(&stores, &key, tail, &append).await;
        assert!(next > tail);
        (tail, failures) = (next, failures + failed);
        written.push(append.bytes);
    }
    assert!(failures > 0, "nothing was noticed of the election");
    assert_eq!(hashes(&stores, &key, 60).await, written);
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_lands_once() {
    let server = NatsServer::start(Settings::default());
    let options = Options {
        request_timeout: Duration::from_millis(300),
        ..on_one(&server)
    };
    let store = open(&options).await;
    let (stores, key) = (store.stores(), session("a"));
    let first = record(1, "first");
    let (tail, _) = append_surely(&stores, &key, Tail::EMPTY, &first).await;
    // It stands still with the connection open: what is sent meanwhile waits at its door.
    server.pause();
    let ghost = record(2, "ghost");
    let outcome = stores.log.append(&key, tail, ghost.clone()).await;
    let unknown = matches!(outcome, Err(AppendError::Write(WriteError::Unknown(_))));
    assert!(unknown, "{outcome:?}");
    server.resume();
    // Late, but it lands: another writer's append after the same token must not.
    let landed = async {
        loop {
            let told = stores.log.tail(&key).await;
            if let Ok(told) = told
                && told.tail > tail
            {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, landed).await.unwrap();
    assert_eq!(told.last.map(|last| last.hash), Some(ghost.hash));
    let rival = stores.log.append(&key, tail, record(2, "rival")).await;
    assert_eq!(rival, Err(AppendError::Conflict));
    let again = append_surely(&stores, &key, tail, &ghost).await;
    assert_eq!(again, (told.tail, 0));
    assert_eq!(hashes(&stores, &key, 2).await, [first.bytes, ghost.bytes]);
}

#[tokio::test]
async fn without_a_broker_nothing_is_written_later() {
    let mut server = NatsServer::start(Settings::default());
    let store = open(&on_one(&server)).await;
    let (stores, key) = (store.stores(), session("a"));
    let first = record(1, "first");
    let (tail, _) = append_surely(&stores, &key, Tail::EMPTY, &first).await;
    server.kill();
    let refused = async {
        loop {
            let outcome = stores.log.append(&key, tail, record(2, "refused")).await;
            match outcome {
                Err(AppendError::Write(WriteError::Unavailable(_))) => return,
                Err(AppendError::Write(WriteError::Unknown(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
    // This one is refused before it is handed to anybody, so it never comes.
    let never = stores.log.append(&key, tail, record(2, "never")).await;
    let unavailable = matches!(never, Err(AppendError::Write(WriteError::Unavailable(_))));
    assert!(unavailable, "{never:?}");
    server.restart();
    let began = Instant::now();
    let told = loop {
        match stores.log.tail(&key).await {
            Ok(told) => break told,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
    };
    let never = record(2, "never").hash;
    assert_ne!(told.last.map(|last| last.hash), Some(never));
}

#[tokio::test]
async fn an_append_that_was_refused_is_no_duplicate_later() {
    let server = NatsServer::start(Settings::default());
    let store = open(&on_one(&server)).await;
    let (stores, key) = (store.stores(), session("a"));
    let append = record(1, "the same");
    let early = stores.log.append(&key, Tail(7), append.clone()).await;
    assert_eq!(early, Err(AppendError::Conflict));
    let tail = stores
        .log
        .append(&key, Tail::EMPTY, append.clone())
        .await
        .unwrap();
    let told = stores.log.tail(&key).await.unwrap();
    assert_eq!(
        (told.tail, told.last.map(|last| last.hash)),
        (tail, Some(append.hash))
    );
}
