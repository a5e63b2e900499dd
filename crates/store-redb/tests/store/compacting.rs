//! The file of a stopped node becomes small again.

use steadfast_store_redb::{Compacted, OpenError, Options, RedbStore, compact};

use crate::samples::session;

#[tokio::test]
async fn a_file_gives_back_the_room_of_what_was_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = RedbStore::open(folder.path(), Options::default()).unwrap();
    let (kept, removed) = (session("kept"), session("removed"));
    let blobs = store.stores().blobs;
    for number in 0..200_u8 {
        let bytes = vec![number; 50_000];
        blobs.put(&removed, bytes.into()).await.unwrap();
    }
    // Behind all that is removed, so that closing cannot cut the file off before it.
    let blob = blobs.put(&kept, vec![1; 50_000].into()).await.unwrap();
    blobs.remove_all(&removed).await.unwrap();
    let refused = compact(folder.path());
    assert!(
        matches!(refused, Err(OpenError::InUse { .. })),
        "{refused:?}"
    );
    drop(blobs);
    store.close().await.unwrap();

    let Compacted {
        before_bytes,
        after_bytes,
    } = compact(folder.path()).unwrap();
    assert!(
        after_bytes < before_bytes / 4,
        "{before_bytes} -> {after_bytes}"
    );
    let store = RedbStore::open(folder.path(), Options::default()).unwrap();
    let bytes = store.stores().blobs.get(&kept, blob.hash).await.unwrap();
    assert_eq!(bytes, Some(vec![1; 50_000].into()));
    store.close().await.unwrap();
}

#[test]
fn a_folder_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let refused = compact(&missing);
    assert!(
        matches!(refused, Err(OpenError::Folder { .. })),
        "{refused:?}"
    );
    assert!(!missing.exists());
}
