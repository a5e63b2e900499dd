//! Blobs by the hash of their bytes.

use bytes::Bytes;
use steadfast_core::content::{BlobHash, BlobRef};

use super::samples::{session, session_of};
use super::{Outcome, Subject};

/// A blob comes back as it was put, under the hash of its bytes, for every node, at once.
pub async fn a_blob_comes_back_whole(subject: Subject) -> Outcome {
    let key = session("a")?;
    for size in [0, 1, 1_000, 300_000, 2_000_000] {
        let bytes: Bytes = (0..size).map(|n: u32| (n % 251) as u8).collect();
        let put = subject.stores.blobs.put(&key, bytes.clone()).await?;
        let expected = BlobRef {
            hash: BlobHash::of(&bytes),
            size_bytes: bytes.len() as u64,
        };
        assert_eq!(put, expected);
        let got = subject.peer.blobs.get(&key, put.hash).await?;
        assert!(got == Some(bytes), "{size} bytes came back changed");
    }
    Ok(())
}

/// Putting the same bytes again changes nothing.
pub async fn a_blob_put_twice_is_one(subject: Subject) -> Outcome {
    let (blobs, key) = (&subject.stores.blobs, session("a")?);
    let bytes = Bytes::from_static(b"twice");
    let first = blobs.put(&key, bytes.clone()).await?;
    let second = subject.peer.blobs.put(&key, bytes.clone()).await?;
    assert_eq!(first, second);
    assert_eq!(blobs.get(&key, first.hash).await?, Some(bytes));
    Ok(())
}

/// A session has its own blobs only.
pub async fn sessions_do_not_see_each_others_blobs(subject: Subject) -> Outcome {
    let blobs = &subject.stores.blobs;
    let bytes = Bytes::from_static(b"private");
    let blob = blobs.put(&session("a")?, bytes).await?;
    for stranger in [
        session("a-1")?,
        session_of("t-1", "a")?,
        session_of("u", "a")?,
    ] {
        assert_eq!(blobs.get(&stranger, blob.hash).await?, None, "{stranger}");
    }
    let unheard = BlobHash::of(b"unheard of");
    assert_eq!(blobs.get(&session("a")?, unheard).await?, None);
    Ok(())
}

/// Removing a session's blobs removes all of them and no other's, and it can put blobs again.
pub async fn a_sessions_blobs_are_removed_together(subject: Subject) -> Outcome {
    let blobs = &subject.stores.blobs;
    let (key, neighbour) = (session("a")?, session("a-1")?);
    let shared = Bytes::from_static(b"in both");
    let mut hashes = Vec::new();
    for bytes in [shared.clone(), Bytes::from(vec![7; 400_000])] {
        hashes.push(blobs.put(&key, bytes).await?.hash);
    }
    let kept = blobs.put(&neighbour, shared.clone()).await?;
    for _ in 0..2 {
        blobs.remove_all(&key).await?;
        for hash in &hashes {
            assert_eq!(subject.peer.blobs.get(&key, *hash).await?, None);
        }
    }
    assert_eq!(
        blobs.get(&neighbour, kept.hash).await?,
        Some(shared.clone())
    );
    let again = blobs.put(&key, shared.clone()).await?;
    assert_eq!(blobs.get(&key, again.hash).await?, Some(shared));
    Ok(())
}
