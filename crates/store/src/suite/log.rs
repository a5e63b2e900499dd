//! What is appended is read; what is purged is not.

use futures_util::StreamExt;
use steadfast_core::id::{Epoch, Seq};
use steadfast_core::limits::RECORD_BYTES_MAX;

use super::samples::{last, node, read_all, record, session, session_of, stored};
use super::{Outcome, Subject, comes_to_show, soon};
use crate::log::{Append, ReadFrom, StoredRecord, Tail, TailInfo};
use crate::stores::Stores;

/// Appends Records of `sizes` events; gives them as they are read.
async fn fill(stores: &Stores, sizes: &[u64]) -> Result<Vec<StoredRecord>, super::Failure> {
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
    assert_eq!(read_all(log.as_ref(), &key).await?, []);
    assert_eq!(log.read(&key, ReadFrom::Seq(Seq(1)), 10).await?, []);
    assert_eq!(log.read(&key, ReadFrom::After(Tail(7)), 10).await?, []);
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
    for stores in [&subject.stores, &subject.peer] {
        comes_to_show(all.clone(), || async {
            Ok(read_all(stores.log.as_ref(), &key).await?)
        })
        .await?;
    }
    Ok(())
}

/// A read gives at most what it was asked for and goes on from any tail.
pub async fn reads_page_from_any_tail(subject: Subject) -> Outcome {
    let (log, key) = (&subject.stores.log, session("a")?);
    let all = fill(&subject.stores, &[1, 2, 1, 1, 3]).await?;
    comes_to_show(all.clone(), || async {
        Ok(read_all(log.as_ref(), &key).await?)
    })
    .await?;
    for limit in 0..=6 {
        let mut after = Tail::EMPTY;
        for start in 0..=all.len() {
            let page = log.read(&key, ReadFrom::After(after), limit).await?;
            let end = all.len().min(start + limit);
            assert_eq!(
                Some(page.as_slice()),
                all.get(start..end),
                "{start} {limit}"
            );
            after = all.get(start).map_or(after, |record| record.tail);
        }
    }
    Ok(())
}

/// A read from an event's number begins with the Record that holds it.
pub async fn reads_begin_at_the_record_that_holds_an_event(subject: Subject) -> Outcome {
    let (log, key) = (&subject.stores.log, session("a")?);
    let sizes = [1, 3, 1, 2, 4];
    let all = fill(&subject.stores, &sizes).await?;
    comes_to_show(all.clone(), || async {
        Ok(read_all(log.as_ref(), &key).await?)
    })
    .await?;
    assert_eq!(log.read(&key, ReadFrom::Seq(Seq(0)), 10).await?, all);
    let mut seq = 0;
    for (index, events) in sizes.into_iter().enumerate() {
        for _ in 0..events {
            seq += 1;
            let read = log.read(&key, ReadFrom::Seq(Seq(seq)), 10).await?;
            assert_eq!(Some(read.as_slice()), all.get(index..), "event {seq}");
            let read = log.read(&key, ReadFrom::Seq(Seq(seq)), 1).await?;
            assert_eq!(Some(read.as_slice()), all.get(index..=index), "event {seq}");
        }
    }
    assert_eq!(log.read(&key, ReadFrom::Seq(Seq(seq + 1)), 10).await?, []);
    Ok(())
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
    comes_to_show(vec![stored(tail, &append)], || async {
        Ok(read_all(log.as_ref(), &key).await?)
    })
    .await
}

/// Equal bytes in two sessions are two appends, however alike the sessions' names are.
pub async fn sessions_share_nothing(subject: Subject) -> Outcome {
    let log = &subject.stores.log;
    let names = [
        ("a", "b-c"),
        ("a-b", "c"),
        ("a", "b"),
        ("b", "b"),
        ("a", "B"),
    ];
    let append = record(1, 1, "the same")?;
    let mut tails = Vec::new();
    for (tenant, name) in names {
        let key = session_of(tenant, name)?;
        let tail = log.append(&key, Tail::EMPTY, append.clone()).await?;
        tails.push((key, tail));
    }
    for (key, tail) in &tails {
        assert_eq!(log.tail(key).await?.tail, *tail);
        comes_to_show(vec![stored(*tail, &append)], || async {
            Ok(read_all(log.as_ref(), key).await?)
        })
        .await?;
    }
    if let Some((key, tail)) = tails.first() {
        let next = log.append(key, *tail, record(2, 1, "more")?).await?;
        log.purge(key, next).await?;
    }
    for (key, tail) in tails.iter().skip(1) {
        assert_eq!(log.tail(key).await?.tail, *tail);
        assert_eq!(
            read_all(log.as_ref(), key).await?,
            [stored(*tail, &append)],
            "{key}"
        );
    }
    Ok(())
}

/// Purged Records are not read; the others are, from any place.
pub async fn purged_records_are_gone(subject: Subject) -> Outcome {
    let (log, key) = (&subject.stores.log, session("a")?);
    let all = fill(&subject.stores, &[2, 2, 2, 2]).await?;
    let (Some(second), Some(rest)) = (all.get(1), all.get(2..)) else {
        return Ok(());
    };
    for _ in 0..2 {
        log.purge(&key, second.tail).await?;
        comes_to_show(rest.to_vec(), || async {
            Ok(read_all(log.as_ref(), &key).await?)
        })
        .await?;
        assert_eq!(log.read(&key, ReadFrom::Seq(Seq(1)), 10).await?, rest);
        let read = log.read(&key, ReadFrom::Seq(Seq(7)), 10).await?;
        assert_eq!(Some(read.as_slice()), rest.get(1..));
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
        let append: Append = record(n, 1, "news")?;
        tail = subject.peer.log.append(&key, tail, append).await?;
        let signalled = tokio::time::timeout(super::PATIENCE / 20, signals.next());
        if signalled.await.is_ok_and(|signal| signal.is_some()) {
            return Ok(());
        }
    }
    Err(super::Failure::new("20 appends and no signal"))
}
