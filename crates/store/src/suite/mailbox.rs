//! Letters: durable, ordered, bounded.

use bytes::Bytes;
use futures_util::future::join_all;

use super::samples::{session, session_of};
use super::{Failure, Outcome, Subject};
use crate::mailbox::{LANE_LETTERS_MAX, Lane, Letter, MailSeq, SendError};
use crate::stores::Stores;

async fn send(stores: &Stores, name: &str, lane: Lane, text: &str) -> Result<Letter, Failure> {
    let bytes = Bytes::from(format!("\0\u{ff}{text}"));
    let mailbox = &stores.mailbox;
    let seq = mailbox
        .send(&session(name)?, lane, text, bytes.clone())
        .await?;
    Ok(Letter { seq, lane, bytes })
}

async fn pending(stores: &Stores, name: &str) -> Result<Vec<Letter>, Failure> {
    let all = stores
        .mailbox
        .pending(&session(name)?, MailSeq::default(), 10_000)
        .await?;
    Ok(all)
}

/// Letters of both lanes stand in the order in which they were acknowledged, for every node.
pub async fn letters_keep_their_order_over_both_lanes(subject: Subject) -> Outcome {
    let mut sent = Vec::new();
    for n in 0..12 {
        let lane = if n % 3 == 1 {
            Lane::Control
        } else {
            Lane::Messages
        };
        let stores = [&subject.stores, &subject.peer][n % 2];
        sent.push(send(stores, "a", lane, &n.to_string()).await?);
        let all = pending(&subject.peer, "a").await?;
        assert_eq!(
            all, sent,
            "a letter is missing that was acknowledged before"
        );
    }
    assert!(sent.is_sorted_by(|a, b| a.seq < b.seq), "{sent:?}");
    Ok(())
}

/// Reading goes on after any letter and gives at most what it was asked for.
pub async fn pending_pages_from_any_letter(subject: Subject) -> Outcome {
    let (mailbox, key) = (&subject.stores.mailbox, session("a")?);
    let mut sent = Vec::new();
    for n in 0..6 {
        let lane = if n % 2 == 0 {
            Lane::Control
        } else {
            Lane::Messages
        };
        sent.push(send(&subject.stores, "a", lane, &n.to_string()).await?);
    }
    for limit in 0..=7 {
        let mut after = MailSeq::default();
        for start in 0..=sent.len() {
            let page = mailbox.pending(&key, after, limit).await?;
            let end = sent.len().min(start + limit);
            assert_eq!(
                Some(page.as_slice()),
                sent.get(start..end),
                "{start} {limit}"
            );
            after = sent.get(start).map_or(after, |letter| letter.seq);
        }
    }
    Ok(())
}

/// Letters with equal ids and bytes are two letters.
pub async fn equal_letters_are_not_merged(subject: Subject) -> Outcome {
    let first = send(&subject.stores, "a", Lane::Messages, "same").await?;
    let second = send(&subject.stores, "a", Lane::Messages, "same").await?;
    assert!(first.seq < second.seq);
    assert_eq!(pending(&subject.stores, "a").await?, [first, second]);
    Ok(())
}

/// An acknowledgement removes all up to its letter and nothing else, however often it comes.
pub async fn acknowledged_letters_are_gone(subject: Subject) -> Outcome {
    let (mailbox, key) = (&subject.stores.mailbox, session("a")?);
    mailbox.acknowledge(&key, MailSeq(5)).await?;
    let other = send(&subject.stores, "b", Lane::Messages, "other").await?;
    let first = send(&subject.stores, "a", Lane::Messages, "1").await?;
    let second = send(&subject.stores, "a", Lane::Control, "2").await?;
    let third = send(&subject.stores, "a", Lane::Messages, "3").await?;
    for _ in 0..2 {
        mailbox.acknowledge(&key, second.seq).await?;
        assert_eq!(pending(&subject.peer, "a").await?, vec![third.clone()]);
    }
    mailbox.acknowledge(&key, first.seq).await?;
    assert_eq!(pending(&subject.peer, "a").await?, vec![third.clone()]);
    for _ in 0..2 {
        mailbox.acknowledge(&key, third.seq).await?;
        assert_eq!(pending(&subject.peer, "a").await?, []);
    }
    assert_eq!(pending(&subject.peer, "b").await?, [other]);
    Ok(())
}

/// A letter that comes after its box was emptied has a higher position than all before.
pub async fn positions_are_never_used_twice(subject: Subject) -> Outcome {
    let (mailbox, key) = (&subject.stores.mailbox, session("a")?);
    let mut newest = MailSeq::default();
    for n in 0..5 {
        let letter = send(&subject.stores, "a", Lane::Messages, &n.to_string()).await?;
        assert!(letter.seq > newest, "{letter:?} after {newest:?}");
        newest = letter.seq;
        mailbox.acknowledge(&key, newest).await?;
    }
    Ok(())
}

/// A full lane refuses; the other lane and other sessions do not notice; room comes back.
pub async fn a_full_lane_refuses_alone(subject: Subject) -> Outcome {
    let (mailbox, key) = (&subject.stores.mailbox, session("a")?);
    let letter = Bytes::from_static(b"letter");
    for (lane, other) in [
        (Lane::Messages, Lane::Control),
        (Lane::Control, Lane::Messages),
    ] {
        let mut sent = 0;
        while sent < LANE_LETTERS_MAX {
            let batch = 50.min(LANE_LETTERS_MAX - sent);
            let sends = (0..batch).map(|_| mailbox.send(&key, lane, "n", letter.clone()));
            for outcome in join_all(sends).await {
                outcome?;
            }
            sent += batch;
        }
        for _ in 0..2 {
            let outcome = mailbox.send(&key, lane, "n", letter.clone()).await;
            assert_eq!(outcome, Err(SendError::Full));
        }
        let neighbour = session_of("u", "a")?;
        mailbox.send(&neighbour, lane, "n", letter.clone()).await?;
        let all = pending(&subject.stores, "a").await?;
        assert_eq!(all.len(), LANE_LETTERS_MAX);
        mailbox.send(&key, other, "n", letter.clone()).await?;
        if let Some(oldest) = all.first() {
            mailbox.acknowledge(&key, oldest.seq).await?;
        }
        mailbox.send(&key, lane, "n", letter.clone()).await?;
        let outcome = mailbox.send(&key, lane, "n", letter.clone()).await;
        assert_eq!(outcome, Err(SendError::Full));
        let newest = pending(&subject.stores, "a").await?;
        if let Some(newest) = newest.last() {
            mailbox.acknowledge(&key, newest.seq).await?;
        }
    }
    Ok(())
}
