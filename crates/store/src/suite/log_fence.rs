//! Compare and append: the rule that everything else stands on.

use futures_util::future::join_all;

use super::samples::{holds, last, record, session, stored};
use super::{Outcome, Subject};
use crate::log::{AppendError, StoredRecord, Tail};

/// Of many appends with one token, exactly one is written.
pub async fn one_of_many_racing_appends_wins(subject: Subject) -> Outcome {
    let key = session("a")?;
    let mut tail = Tail::EMPTY;
    let mut history: Vec<StoredRecord> = Vec::new();
    for round in 1..=20 {
        let mut appends = Vec::new();
        for racer in 0..8 {
            appends.push(record(round, 1, &format!("racer {racer}"))?);
        }
        let races = appends.iter().enumerate().map(|(racer, append)| {
            let stores = [&subject.stores, &subject.peer][racer % 2];
            stores.log.append(&key, tail, append.clone())
        });
        let outcomes = join_all(races).await;
        let mut winners = Vec::new();
        for (append, outcome) in appends.iter().zip(outcomes) {
            match outcome {
                Ok(tail) => winners.push((tail, append)),
                Err(error) => assert_eq!(error, AppendError::Conflict),
            }
        }
        assert_eq!(winners.len(), 1, "winners of round {round}: {winners:?}");
        for (new_tail, winner) in winners {
            let told = subject.peer.log.tail(&key).await?;
            assert_eq!((told.tail, told.last), (new_tail, Some(last(winner))));
            history.push(stored(new_tail, winner));
            tail = new_tail;
        }
    }
    holds(&subject.stores, &key, &history).await
}

/// Appends to different sessions do not stand in each other's way.
pub async fn appends_to_many_sessions_all_win(subject: Subject) -> Outcome {
    let mut keys = Vec::new();
    for n in 0..40 {
        keys.push(session(&format!("s{n}"))?);
    }
    let append = record(1, 1, "first")?;
    let appends = keys
        .iter()
        .map(|key| subject.stores.log.append(key, Tail::EMPTY, append.clone()));
    for (key, outcome) in keys.iter().zip(join_all(appends).await) {
        assert_eq!(subject.peer.log.tail(key).await?.tail, outcome?);
    }
    Ok(())
}

/// A token that is not the tail conflicts, and nothing is written.
pub async fn an_append_after_another_token_conflicts(subject: Subject) -> Outcome {
    let (log, key) = (&subject.stores.log, session("a")?);
    let unheard = log.append(&key, Tail(9), record(1, 1, "zombie")?).await;
    assert_eq!(unheard, Err(AppendError::Conflict));
    let first = record(1, 1, "first")?;
    let first_tail = log.append(&key, Tail::EMPTY, first.clone()).await?;
    let second = record(2, 1, "second")?;
    let second_tail = log.append(&key, first_tail, second.clone()).await?;
    for stale in [
        Tail::EMPTY,
        first_tail,
        Tail(second_tail.0 + 1),
        Tail(second_tail.0 + 1_000),
    ] {
        let outcome = log.append(&key, stale, record(3, 1, "zombie")?).await;
        assert_eq!(outcome, Err(AppendError::Conflict), "{stale:?}");
    }
    let told = log.tail(&key).await?;
    assert_eq!((told.tail, told.last), (second_tail, Some(last(&second))));
    holds(
        &subject.stores,
        &key,
        &[stored(first_tail, &first), stored(second_tail, &second)],
    )
    .await
}

/// The same append sent again, as after a lost acknowledgement, stands in the log once.
pub async fn a_repeated_append_is_written_once(subject: Subject) -> Outcome {
    let (log, key) = (&subject.stores.log, session("a")?);
    let first = record(1, 1, "first")?;
    let first_tail = log.append(&key, Tail::EMPTY, first.clone()).await?;
    for stores in [&subject.stores, &subject.peer] {
        let again = stores.log.append(&key, Tail::EMPTY, first.clone()).await;
        let allowed = again == Ok(first_tail) || again == Err(AppendError::Conflict);
        assert!(allowed, "{again:?}");
        assert_eq!(log.tail(&key).await?.last, Some(last(&first)));
    }
    let second = record(2, 1, "second")?;
    let second_tail = log.append(&key, first_tail, second.clone()).await?;
    let again = log.append(&key, Tail::EMPTY, first.clone()).await;
    let allowed = again == Ok(first_tail) || again == Err(AppendError::Conflict);
    assert!(allowed, "{again:?}");
    let told = log.tail(&key).await?;
    assert_eq!((told.tail, told.last), (second_tail, Some(last(&second))));
    holds(
        &subject.stores,
        &key,
        &[stored(first_tail, &first), stored(second_tail, &second)],
    )
    .await
}

/// The same append sent twice at the same time, as by an impatient client, stands in the log once.
pub async fn a_doubled_append_is_written_once(subject: Subject) -> Outcome {
    let key = session("a")?;
    let (mut tail, mut history) = (Tail::EMPTY, Vec::new());
    for round in 1..=20 {
        let append = record(round, 1, "doubled")?;
        let (one, other) = tokio::join!(
            subject.stores.log.append(&key, tail, append.clone()),
            subject.peer.log.append(&key, tail, append.clone()),
        );
        let told = subject.stores.log.tail(&key).await?;
        assert_eq!(told.last, Some(last(&append)), "{one:?} {other:?}");
        for outcome in [&one, &other] {
            let allowed = *outcome == Ok(told.tail) || *outcome == Err(AppendError::Conflict);
            assert!(allowed, "{one:?} {other:?}");
        }
        assert!(one.is_ok() || other.is_ok(), "{one:?} {other:?}");
        tail = told.tail;
        history.push(stored(tail, &append));
    }
    holds(&subject.stores, &key, &history).await
}

/// A purge, even of everything, leaves the last Record, its token and so the fence.
pub async fn a_purge_keeps_the_fence(subject: Subject) -> Outcome {
    let (log, key) = (&subject.stores.log, session("a")?);
    let first_tail = log
        .append(&key, Tail::EMPTY, record(1, 1, "first")?)
        .await?;
    let second = record(2, 1, "second")?;
    let second_tail = log.append(&key, first_tail, second.clone()).await?;
    for through in [first_tail, second_tail, Tail(second_tail.0 + 1_000)] {
        log.purge(&key, through).await?;
        let told = log.tail(&key).await?;
        assert_eq!((told.tail, told.last), (second_tail, Some(last(&second))));
        holds(&subject.stores, &key, &[stored(second_tail, &second)]).await?;
        for stale in [Tail::EMPTY, first_tail] {
            let outcome = log.append(&key, stale, record(1, 1, "zombie")?).await;
            assert_eq!(outcome, Err(AppendError::Conflict), "{stale:?}");
        }
    }
    let third = record(3, 1, "third")?;
    let third_tail = log.append(&key, second_tail, third.clone()).await?;
    log.purge(&key, second_tail).await?;
    holds(&subject.stores, &key, &[stored(third_tail, &third)]).await
}
