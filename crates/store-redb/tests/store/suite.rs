//! The conformance suite: on a file, and on a disk that lies until it is synced.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use steadfast_store::clock::SystemClock;
use steadfast_store::suite::{Persistent, Subject};
use steadfast_store_redb::{OpenError, Options, RedbStore};

use crate::disk::Disk;
use crate::samples;

const SILENCE_MS: u64 = 400;

fn options() -> Options {
    Options {
        silence_ms: SILENCE_MS,
        ..Options::default()
    }
}

fn subject_of(store: RedbStore, folder: Option<tempfile::TempDir>) -> Subject {
    let stores = store.stores();
    Subject {
        peer: stores.clone(),
        stores,
        clock: Arc::new(SystemClock),
        silence: Duration::from_millis(SILENCE_MS),
        keep: Box::new((store, folder)),
    }
}

mod on_a_file {
    use super::*;

    async fn subject() -> Subject {
        let folder = tempfile::tempdir().unwrap();
        let store = RedbStore::open(folder.path(), options()).unwrap();
        subject_of(store, Some(folder))
    }

    /// The one before was dropped; its file is closed a moment later.
    async fn open_again(folder: PathBuf) -> Subject {
        loop {
            match RedbStore::open(&folder, options()) {
                Ok(store) => return subject_of(store, None),
                Err(OpenError::InUse { .. }) => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn persistent() -> Persistent {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        Persistent {
            open: Box::new(move || Box::pin(open_again(path.clone()))),
            keep: Box::new(folder),
        }
    }

    steadfast_store::conformance!(subject);
    steadfast_store::persistence!(persistent);
}

mod on_a_disk {
    use super::*;

    async fn subject() -> Subject {
        subject_of(samples::open(&Disk::default(), options()), None)
    }

    steadfast_store::conformance!(subject);
}

mod without_fsync {
    use super::*;

    async fn subject() -> Subject {
        let options = Options {
            require_fsync: false,
            ..options()
        };
        subject_of(samples::open(&Disk::default(), options), None)
    }

    steadfast_store::conformance!(subject);
}

mod while_rows_are_moved {
    use super::*;

    async fn subject() -> Subject {
        let options = Options {
            journal_bytes: 1,
            ..options()
        };
        subject_of(samples::open(&Disk::default(), options), None)
    }

    steadfast_store::conformance!(subject);
}
