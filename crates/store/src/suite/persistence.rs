//! What an acknowledgement promises when the store is closed and opened again.

use std::time::Duration;

use bytes::Bytes;
use steadfast_core::id::{Epoch, Timestamp};

use super::samples::{holds, last, node, record, session, stored};
use super::{Outcome, Persistent, is_quiet, soon};
use crate::log::{AppendError, Tail};
use crate::mailbox::{Lane, Letter, MailSeq};
use crate::timers::Due;

/// Records, their tail and the fence are there again, purged ones are not.
pub async fn the_log_survives(persistent: Persistent) -> Outcome {
    let key = session("a")?;
    let subject = (persistent.open)().await;
    let log = &subject.stores.log;
    let mut tail = Tail::EMPTY;
    let mut kept = Vec::new();
    for n in 0..5 {
        let append = record(1 + 2 * n, 2, "kept")?;
        let stale = tail;
        tail = log.append(&key, tail, append.clone()).await?;
        kept.push((stale, stored(tail, &append), append));
    }
    if let Some((stale, _, _)) = kept.get(2) {
        log.purge(&key, *stale).await?;
    }
    drop(subject);

    let subject = (persistent.open)().await;
    let log = &subject.stores.log;
    let told = log.tail(&key).await?;
    let expected = kept.last().map(|(_, _, append)| last(append));
    assert_eq!((told.tail, told.last), (tail, expected));
    let records = kept.iter().skip(2).map(|(_, record, _)| record.clone());
    let records: Vec<_> = records.collect();
    holds(&subject.stores, &key, &records).await?;
    for (stale, _, _) in &kept {
        let outcome = log.append(&key, *stale, record(11, 1, "zombie")?).await;
        assert_eq!(outcome, Err(AppendError::Conflict));
    }
    let next = log.append(&key, tail, record(11, 1, "next")?).await?;
    assert!(next > tail);
    Ok(())
}

/// Letters are there again and are announced; positions go on from where they were.
pub async fn mail_survives_and_is_announced(persistent: Persistent) -> Outcome {
    let key = session("a")?;
    let subject = (persistent.open)().await;
    let mailbox = &subject.stores.mailbox;
    let mut letters = Vec::new();
    for lane in [Lane::Messages, Lane::Control, Lane::Messages] {
        let bytes = Bytes::from_static(b"letter");
        let seq = mailbox.send(&key, lane, "id", bytes.clone()).await?;
        letters.push(Letter { seq, lane, bytes });
    }
    let first = letters.remove(0);
    mailbox.acknowledge(&key, first.seq).await?;
    soon("a delivery", mailbox.next()).await??;
    drop(subject);

    let subject = (persistent.open)().await;
    let mailbox = &subject.stores.mailbox;
    let pending = mailbox.pending(&key, MailSeq::default(), 10).await?;
    assert_eq!(pending, letters);
    let newest = letters.last().map(|letter| letter.seq);
    let mut seen = None;
    while seen < newest {
        let delivery = soon("a delivery", mailbox.next()).await??;
        assert_eq!(delivery.session, key);
        seen = seen.max(Some(delivery.up_to));
    }
    mailbox.acknowledge(&key, seen.unwrap_or_default()).await?;
    drop(subject);

    let subject = (persistent.open)().await;
    let mailbox = &subject.stores.mailbox;
    assert!(is_quiet(subject.silence * 2, mailbox.next()).await);
    let bytes = Bytes::from_static(b"letter");
    let seq = mailbox.send(&key, Lane::Control, "id", bytes).await?;
    assert!(Some(seq) > newest, "{seq:?} after {newest:?}");
    Ok(())
}

/// A timer fires after a reopening, also one whose time passed meanwhile, and one that had fired
/// without acknowledgement.
pub async fn timers_survive(persistent: Persistent) -> Outcome {
    let key = session("a")?;
    let subject = (persistent.open)().await;
    let timers = &subject.stores.timers;
    let now = subject.clock.now();
    timers.set(&key, Epoch(1), now).await?;
    let fired = soon("a timer", timers.next()).await??;
    timers.set(&key, Epoch(2), now.plus_ms(100)).await?;
    timers.set(&key, Epoch(3), now.plus_ms(1_500)).await?;
    drop(subject);

    tokio::time::sleep(Duration::from_millis(150)).await;
    let subject = (persistent.open)().await;
    let timers = &subject.stores.timers;
    let mut waiting = vec![1, 2, 3];
    while !waiting.is_empty() {
        let fired = soon("a timer", timers.next()).await??;
        timers.acknowledge(&fired).await?;
        assert!(fired.epoch != Epoch(3) || subject.clock.now() >= now.plus_ms(1_500));
        waiting.retain(|epoch| Epoch(*epoch) != fired.epoch);
    }
    drop(subject);

    let subject = (persistent.open)().await;
    let timers = &subject.stores.timers;
    assert!(is_quiet(subject.silence * 2, timers.next()).await);
    let first = Due {
        session: key,
        epoch: Epoch(1),
    };
    assert_eq!(fired, first);
    Ok(())
}

/// Entries of the index are there again, and versions go on from where they were.
pub async fn the_index_survives(persistent: Persistent) -> Outcome {
    let (owner, kept, removed) = (node("owner")?, session("kept")?, session("removed")?);
    let subject = (persistent.open)().await;
    let active = &subject.stores.active;
    let version = active.add(&owner, &removed, Timestamp(1)).await?;
    active.remove(&owner, &removed, version).await?;
    active.add(&owner, &kept, Timestamp(2)).await?;
    let newest = active.add(&owner, &removed, Timestamp(3)).await?;
    active.remove(&owner, &removed, newest).await?;
    let entries = active.entries(&owner, None, 10).await?;
    assert_eq!(entries.len(), 1);
    // What was added is durable no later than a Record whose append begins after it.
    let log = &subject.stores.log;
    log.append(&kept, Tail::EMPTY, record(1, 1, "activated")?)
        .await?;
    drop(subject);

    let subject = (persistent.open)().await;
    let active = &subject.stores.active;
    assert_eq!(active.entries(&owner, None, 10).await?, entries);
    assert_eq!(active.nodes().await?, vec![owner.clone()]);
    let again = active.add(&owner, &kept, Timestamp(4)).await?;
    assert!(again > newest, "{again} after {newest}");
    Ok(())
}

/// A blob is there again; those of a removed session are not.
pub async fn blobs_survive(persistent: Persistent) -> Outcome {
    let (kept, removed) = (session("kept")?, session("removed")?);
    let bytes = Bytes::from(vec![5; 100_000]);
    let subject = (persistent.open)().await;
    let blobs = &subject.stores.blobs;
    let blob = blobs.put(&kept, bytes.clone()).await?;
    blobs.put(&removed, bytes.clone()).await?;
    blobs.remove_all(&removed).await?;
    drop(subject);

    let subject = (persistent.open)().await;
    let blobs = &subject.stores.blobs;
    assert_eq!(blobs.get(&kept, blob.hash).await?, Some(bytes));
    assert_eq!(blobs.get(&removed, blob.hash).await?, None);
    Ok(())
}
