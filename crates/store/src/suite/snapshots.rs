//! The cache of states.

use bytes::Bytes;

use super::samples::{session, session_of};
use super::{Outcome, Subject, comes_to_show};

/// The newest snapshot is read, each session's own.
pub async fn the_newest_snapshot_is_read(subject: Subject) -> Outcome {
    let snapshots = &subject.stores.snapshots;
    let key = session("a")?;
    assert_eq!(snapshots.get(&key).await?, None);
    for neighbour in [session("a-1")?, session_of("u", "a")?] {
        snapshots
            .put(&neighbour, Bytes::from_static(b"neighbour"))
            .await?;
    }
    for size in [10, 500_000, 0, 20] {
        let bytes = Bytes::from(vec![9; size]);
        snapshots.put(&key, bytes.clone()).await?;
        comes_to_show(Some(bytes), || async { Ok(snapshots.get(&key).await?) }).await?;
    }
    Ok(())
}

/// A removed snapshot is gone, its neighbours stay, and the session can have another.
pub async fn a_removed_snapshot_is_gone(subject: Subject) -> Outcome {
    let snapshots = &subject.stores.snapshots;
    let (key, neighbour) = (session("a")?, session("a-1")?);
    let (old, new) = (Bytes::from_static(b"old"), Bytes::from_static(b"new"));
    snapshots.remove(&key).await?;
    snapshots.put(&key, old.clone()).await?;
    snapshots.put(&neighbour, old.clone()).await?;
    for _ in 0..2 {
        snapshots.remove(&key).await?;
        comes_to_show(None, || async { Ok(snapshots.get(&key).await?) }).await?;
    }
    comes_to_show(Some(old), || async { Ok(snapshots.get(&neighbour).await?) }).await?;
    snapshots.put(&key, new.clone()).await?;
    comes_to_show(Some(new), || async { Ok(snapshots.get(&key).await?) }).await
}
