//! Who may open a folder, and what is refused.

use std::path::Path;

use redb::{ReadableDatabase, TableDefinition};
use steadfast_store::Guarantee;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{AppendError, ReadFrom, Tail};
use steadfast_store_redb::{OpenError, Options, RedbStore};

use crate::samples::{record, session};

fn refusal(folder: &Path) -> String {
    match RedbStore::open(folder, Options::default()) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_folder_in_use_is_refused_with_the_number_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open(folder.path(), Options::default()).unwrap();
    let expected = format!(
        "the data folder {} is in use by process {}: stop it, or give this node a folder of its own",
        folder.path().display(),
        std::process::id()
    );
    assert_eq!(refusal(folder.path()), expected);
    store.close().await.unwrap();
    let again = RedbStore::open(folder.path(), Options::default()).unwrap();
    again.close().await.unwrap();
}

#[tokio::test]
async fn a_lock_file_that_was_left_over_is_no_hindrance() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lock"), "1\n").unwrap();
    let store = RedbStore::open(folder.path(), Options::default()).unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_folder_is_made_with_all_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("a/b");
    let store = RedbStore::open(&below, Options::default()).unwrap();
    store.close().await.unwrap();
    assert!(below.join("store.redb").is_file());
}

#[test]
fn a_file_of_another_format_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let format: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let database = redb::Database::create(&file).unwrap();
    let write = database.begin_write().unwrap();
    write
        .open_table(format)
        .unwrap()
        .insert("format", 7)
        .unwrap();
    write.commit().unwrap();
    drop(database);
    let error = RedbStore::open(folder.path(), Options::default()).err();
    assert!(
        matches!(
            error,
            Some(OpenError::Format {
                found: 7,
                known: 2,
                ..
            })
        ),
        "{error:?}"
    );
    let database = redb::Database::open(&file).unwrap();
    let read = database.begin_read().unwrap();
    let stands = read.open_table(format).unwrap().get("format").unwrap();
    assert_eq!(stands.map(|number| number.value()), Some(7));
    assert_eq!(read.list_tables().unwrap().count(), 1);
}

#[test]
fn a_database_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let other: TableDefinition<'_, &str, &str> = TableDefinition::new("other");
    let database = redb::Database::create(&file).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(other).unwrap().insert("a", "b").unwrap();
    write.commit().unwrap();
    drop(database);
    let expected = format!(
        "{} has format 0, this release reads and writes format 2: use the release that wrote it",
        file.display()
    );
    assert_eq!(refusal(folder.path()), expected);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    std::fs::write(&file, "a text of somebody").unwrap();
    let text = refusal(folder.path());
    let named = format!("{} cannot be opened: ", file.display());
    assert!(text.starts_with(&named), "{text}");
    let left = std::fs::read_to_string(&file).unwrap();
    assert_eq!(left, "a text of somebody");
}

#[tokio::test]
async fn a_closed_store_refuses_everything() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open(folder.path(), Options::default()).unwrap();
    let stores = store.stores();
    let key = session("a");
    stores
        .log
        .append(&key, Tail::EMPTY, record(1, "first"))
        .await
        .unwrap();
    store.close().await.unwrap();
    let closed = || "the store is closed".to_string();
    assert_eq!(
        stores.log.append(&key, Tail(1), record(2, "late")).await,
        Err(AppendError::Write(WriteError::Unavailable(closed())))
    );
    let unreadable = ReadError::Unavailable(closed());
    let read = stores.log.read(&key, ReadFrom::After(Tail::EMPTY), 1).await;
    assert_eq!(read, Err(unreadable.clone()));
    assert_eq!(stores.log.tail(&key).await, Err(unreadable.clone()));
    assert_eq!(stores.mailbox.next().await, Err(unreadable.clone()));
    assert_eq!(stores.timers.next().await, Err(unreadable));
}

#[tokio::test]
async fn the_guarantee_says_whether_the_disk_is_waited_for() {
    for require_fsync in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            require_fsync,
            ..Options::default()
        };
        let store = RedbStore::open(folder.path(), options).unwrap();
        let expected = Guarantee {
            fsync: require_fsync,
            replicas: 1,
        };
        assert_eq!(store.guarantee(), expected);
        store.close().await.unwrap();
    }
}
