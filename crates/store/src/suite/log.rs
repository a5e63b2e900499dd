//! What is appended is read; what is purged is not.

use futures_util::StreamExt;
use steadfast_core::id::{Epoch, Seq};
use steadfast_core::limits::RECORD_BYTES_MAX;

use super::samples::{holds, last, node, reads, record, session, session_of, stored};
use super::{Failure, Outcome, Subject, soon};
use crate::log::{ReadFrom, StoredRecord, Tail, TailInfo};
use crate::stores::Stores;

/// Appends Records of `sizes` events; gives them as they are read.
async fn fill(stores: &Stores, sizes: &[u64]) -> Result<Vec<StoredRecord>, Failure> {
    let key = session("a")?;
    let (mut tail, mut first_seq, mut all) = (Tail::EMPTY, 1, Vec::new());
    for &events in sizes {
        let append = record(first_seq, events, "filled")?;
        tail = stores.log.append(&key, tail, append.clone()).await?;
        all.push(stored(tail, &append));
        first_seq += events;
    }
    Ok(all)
}

/// A session of which nothing was heard has no tail and no Records.
pub async fn an_empty_log_has_no_tail_and_no_records(subject: Subject) -> Outcome {
    let (log, key) = (&subject.stores.log, session("a")?);
    let nothing = TailInfo {
        tail: Tail::EMPTY,
        last: None,
    };
    assert_eq!(log.tail(&key).await?, nothing);
    for from in [
        ReadFrom::After(Tail::EMPTY),
        ReadFrom::After(Tail(7)),
        ReadFrom::Seq(Seq(0)),
        ReadFrom::Seq(Seq(1)),
    ] {
        assert_eq!(log.read(&key, from, 10).await?, []);
    }
    log.purge(&key, Tail(7)).await?;
    assert_eq!(log.tail(&key).await?, nothing);
    Ok(())
}

/// Records come back whole, in order, with rising tails.
pub async fn records_are_read_in_the_order_of_their_appends(subject: Subject) -> Outcome {
    let key = session("a")?;
    let all = fill(&subject.stores, &[1, 3, 1, 2, 1]).await?;
    assert!(all.is_sorted_by(|a, b| a.tail < b.tail), "{all:?}");
    assert!(all.iter().all(|record| record.tail > Tail::EMPTY));
    holds(&subject.stores, &key, &all).await?;
    holds(&subject.peer, &key, &all).await
}

/// A read gives at most what it was asked for and goes on from any tail.
pub async fn reads_page_from_any_tail(subject: Subject) -> Outcome {
    let (stores, key) = (&subject.stores, session("a")?);
    let all = fill(stores, &[1, 2, 1, 1, 3]).await?;
    for limit in 0..=all.len() + 1 {
        let mut after = Tail::EMPTY;
        for start in 0..=all.len() {
            let end = all.len().min(start + limit);
            let page = all.get(start..end).unwrap_or_default();
            reads(stores, &key, ReadFrom::After(after), limit, page).await?;
            after = all.get(start).map_or(after, |record| record.tail);
        }
    }
    Ok(())
}

/// A read from an event's number begins with the Record that holds it.
pub async fn reads_begin_at_the_record_that_holds_an_event(subject: Subject) -> Outcome {
    let (stores, key) = (&subject.stores, session("a")?);
    let sizes = [1, 3, 1, 2, 4];
    let all = fill(stores, &sizes).await?;
    reads(stores, &key, ReadFrom::Seq(Seq(0)), 10, &all).await?;
    let mut seq = 0;
    for (index, events) in sizes.into_iter().enumerate() {
        for _ in 0..events {
            seq += 1;
            let from = ReadFrom::Seq(Seq(seq));
            let rest = all.get(index..).unwrap_or_default();
            reads(stores, &key, from, 10, rest).await?;
            reads(stores, &key, from, 1, rest.get(..1).unwrap_or_default()).await?;
        }
    }
    reads(stores, &key, ReadFrom::Seq(Seq(seq + 1)), 10, &[]).await
}

/// The tail tells of the last Record at once, to every node.
pub async fn the_tail_is_never_behind(subject: Subject) -> Outcome {
    let key = session("a")?;
    let mut tail = Tail::EMPTY;
    for n in 1..=50 {
        let mut append = record(n, 1, "tail")?;
        append.epoch = Epoch(n / 10);
        append.node = node(&format!("n{}", n / 10))?;
        tail = subject
            .stores
            .log
            .append(&key, tail, append.clone())
            .await?;
        let told = TailInfo {
            tail,
            last: Some(last(&append)),
        };
        assert_eq!(subject.peer.log.tail(&key).await?, told);
        assert_eq!(subject.stores.log.tail(&key).await?, told);
    }
    Ok(())
}

/// A Record of the largest size that is ever written fits.
pub async fn the_largest_record_fits(subject: Subject) -> Outcome {
    let (log, key) = (&subject.stores.log, session("a")?);
    let small = record(1, 1, "")?;
    let text = "x".repeat(RECORD_BYTES_MAX - small.bytes.len());
    let append = record(1, 1, &text)?;
    let tail = log.append(&key, Tail::EMPTY, append.clone()).await?;
    holds(&subject.stores, &key, &[stored(tail, &append)]).await
}

/// Equal bytes in two sessions are two appends, however alike the sessions' names are.
pub async fn sessions_share_nothing(subject: Subject) -> Outcome {
    let log = &subject.stores.log;
    let append = record(1, 1, "the same")?;
    let mut tails = Vec::new();
    for (tenant, name) in [
        ("a", "b-c"),
        ("a-b", "c"),
        ("a", "b"),
        ("b", "b"),
        ("a", "B"),
    ] {
        let key = session_of(tenant, name)?;
        let tail = log.append(&key, Tail::EMPTY, append.clone()).await?;
        tails.push((key, tail));
    }
    for (key, tail) in &tails {
        assert_eq!(log.tail(key).await?.tail, *tail, "{key}");
        holds(&subject.stores, key, &[stored(*tail, &append)]).await?;
    }
    if let Some((key, tail)) = tails.first() {
        let next = log.append(key, *tail, record(2, 1, "more")?).await?;
        log.purge(key, next).await?;
    }
    for (key, tail) in tails.iter().skip(1) {
        assert_eq!(log.tail(key).await?.tail, *tail, "{key}");
        holds(&subject.stores, key, &[stored(*tail, &append)]).await?;
    }
    Ok(())
}

/// Purged Records are not read; the others are, from any place.
pub async fn purged_records_are_gone(subject: Subject) -> Outcome {
    let (stores, key) = (&subject.stores, session("a")?);
    let all = fill(stores, &[2, 2, 2, 2]).await?;
    let (Some(second), Some(rest)) = (all.get(1), all.get(2..)) else {
        return Err(Failure::new("fewer Records than were appended"));
    };
    for _ in 0..2 {
        stores.log.purge(&key, second.tail).await?;
        holds(stores, &key, rest).await?;
        reads(stores, &key, ReadFrom::Seq(Seq(1)), 10, rest).await?;
        let newest = rest.get(1..).unwrap_or_default();
        reads(stores, &key, ReadFrom::Seq(Seq(7)), 10, newest).await?;
    }
    Ok(())
}

/// A follower is signalled at once, and again when another node appends.
pub async fn a_follower_is_signalled(subject: Subject) -> Outcome {
    let key = session("a")?;
    let mut signals = subject.stores.log.follow(&key).await?;
    soon("the first signal", signals.next()).await?;
    let mut tail = Tail::EMPTY;
    // A signal may be lost, so one append is not enough; that all are lost is a fault.
    for n in 1..=20 {
        let append = record(n, 1, "news")?;
        tail = subject.peer.log.append(&key, tail, append).await?;
        let signalled = tokio::time::timeout(super::PATIENCE / 20, signals.next());
        if signalled.await.is_ok_and(|signal| signal.is_some()) {
            return Ok(());
        }
    }
    Err(Failure::new("20 appends and no signal"))
}
