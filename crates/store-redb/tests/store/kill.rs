//! A process that is killed while it writes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use steadfast_core::id::SessionKey;
use steadfast_store::log::{ReadFrom, Tail};
use steadfast_store_redb::{Options, RedbStore};

use crate::samples::{record, session};

const FOLDER: &str = "STORE_TEST_FOLDER";
const SESSIONS: usize = 8;

/// Runs itself as the process that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_a_killed_process() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        append_for_ever(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = [0; SESSIONS];
    for round in 1..=3 {
        acknowledged = kill_after(folder.path(), round * 40, acknowledged);
        let store = RedbStore::open(folder.path(), Options::default()).unwrap();
        for (n, count) in acknowledged.iter_mut().enumerate() {
            let found = read_all(&store, &name(n)).await;
            assert!(found.len() >= *count, "{} of {count}", found.len());
            let expected: Vec<_> = (1..)
                .map(|seq| record(seq, "kept").bytes)
                .take(found.len())
                .collect();
            assert_eq!(found, expected);
            *count = found.len();
        }
        store.close().await.unwrap();
    }
}

/// Lets another process append until it has acknowledged so many Records, then kills it.
fn kill_after(folder: &Path, lines: usize, mut counts: [usize; SESSIONS]) -> [usize; SESSIONS] {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::what_was_acknowledged_outlives_a_killed_process",
        ])
        .arg("--nocapture")
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut killed = false;
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(n) = line.strip_prefix("acknowledged ") {
            counts[n.parse::<usize>().unwrap()] += 1;
            seen += 1;
        }
        if seen >= lines && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    child.wait().unwrap();
    assert!(
        killed,
        "the other process ended by itself after {seen} lines"
    );
    counts
}

async fn append_for_ever(folder: &Path) -> ! {
    let store = RedbStore::open(folder, Options::default()).unwrap();
    for n in 0..SESSIONS {
        let log = store.stores().log;
        tokio::spawn(async move {
            let mut tail = log.tail(&name(n)).await.unwrap().tail;
            loop {
                let next = record(tail.0 + 1, "kept");
                tail = log.append(&name(n), tail, next).await.unwrap();
                let mut out = std::io::stdout().lock();
                writeln!(out, "acknowledged {n}").unwrap();
            }
        });
    }
    std::future::pending().await
}

async fn read_all(store: &RedbStore, key: &SessionKey) -> Vec<bytes::Bytes> {
    let log = store.stores().log;
    let records = log.read(key, ReadFrom::After(Tail::EMPTY), 1_000_000).await;
    records
        .unwrap()
        .into_iter()
        .map(|record| record.bytes)
        .collect()
}

fn name(n: usize) -> SessionKey {
    session(&format!("s{n}"))
}
