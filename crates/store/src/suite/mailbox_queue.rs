//! Announcing sessions that have mail.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::id::SessionKey;
use tokio::time::{Instant, timeout};

use super::samples::session;
use super::{Failure, Outcome, Subject, is_quiet, soon};
use crate::mailbox::{Delivery, Lane, MailSeq};
use crate::stores::Stores;

async fn send(stores: &Stores, key: &SessionKey) -> Result<MailSeq, Failure> {
    let letter = Bytes::from_static(b"letter");
    let sent = stores.mailbox.send(key, Lane::Messages, "id", letter).await;
    Ok(sent?)
}

async fn next(stores: &Stores) -> Result<Delivery, Failure> {
    Ok(soon("a delivery", stores.mailbox.next()).await??)
}

/// Every session with mail is announced, and what is acknowledged never again.
pub async fn every_session_with_mail_is_announced(subject: Subject) -> Outcome {
    let mailbox = &subject.stores.mailbox;
    let mut waiting = BTreeSet::new();
    for n in 0..20 {
        let key = session(&format!("s{n}"))?;
        send(&subject.stores, &key).await?;
        send(&subject.peer, &key).await?;
        waiting.insert(key);
    }
    while !waiting.is_empty() {
        let delivery = next(&subject.stores).await?;
        let left = mailbox
            .pending(&delivery.session, delivery.up_to, 10)
            .await?;
        mailbox
            .acknowledge(&delivery.session, delivery.up_to)
            .await?;
        if left.is_empty() {
            waiting.remove(&delivery.session);
        }
    }
    assert!(is_quiet(subject.silence * 2, mailbox.next()).await);
    Ok(())
}

/// A caller that waits is woken by a letter that another node sends.
pub async fn a_waiting_caller_is_woken(subject: Subject) -> Outcome {
    let key = session("a")?;
    assert!(is_quiet(Duration::from_millis(50), subject.stores.mailbox.next()).await);
    let (delivery, sent) = tokio::join!(next(&subject.stores), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        send(&subject.peer, &key).await
    });
    let expected = Delivery {
        session: key,
        up_to: sent?,
        deliveries: 1,
    };
    assert_eq!(delivery?, expected);
    Ok(())
}

/// One letter goes to one of two callers, not to both.
pub async fn an_announcement_goes_to_one_caller(subject: Subject) -> Outcome {
    let key = session("a")?;
    let both = async {
        tokio::join!(
            timeout(subject.silence / 2, subject.stores.mailbox.next()),
            timeout(subject.silence / 2, subject.peer.mailbox.next()),
        )
    };
    let ((one, other), sent) = tokio::join!(both, send(&subject.stores, &key));
    sent?;
    assert_ne!(one.is_ok(), other.is_ok(), "{one:?} {other:?}");
    Ok(())
}

/// Mail that is given back comes again, after its delay and not only after a silence, and counts
/// its deliveries.
pub async fn mail_given_back_comes_again_after_its_delay(subject: Subject) -> Outcome {
    let (mailbox, key) = (&subject.stores.mailbox, session("a")?);
    let up_to = send(&subject.stores, &key).await?;
    let delay = subject.silence / 4;
    let mut delivery = next(&subject.stores).await?;
    for deliveries in 1..=3 {
        let expected = Delivery {
            session: key.clone(),
            up_to,
            deliveries,
        };
        assert_eq!(delivery, expected);
        mailbox.give_back(delivery, delay).await?;
        assert!(is_quiet(delay * 4 / 5, mailbox.next()).await);
        let in_time = subject.silence * 9 / 10 - delay;
        delivery = timeout(in_time, mailbox.next()).await??;
    }
    Ok(())
}

/// Mail that is given back after it was acknowledged does not come again.
pub async fn acknowledged_mail_is_not_given_back(subject: Subject) -> Outcome {
    let (mailbox, key) = (&subject.stores.mailbox, session("a")?);
    send(&subject.stores, &key).await?;
    let delivery = next(&subject.stores).await?;
    mailbox.acknowledge(&key, delivery.up_to).await?;
    mailbox.give_back(delivery, Duration::ZERO).await?;
    assert!(is_quiet(subject.silence * 2, mailbox.next()).await);
    Ok(())
}

/// Mail whose caller says nothing comes again, to whoever asks.
pub async fn silence_brings_mail_again(subject: Subject) -> Outcome {
    let key = session("a")?;
    let up_to = send(&subject.stores, &key).await?;
    for deliveries in 1..=3 {
        let began = Instant::now();
        let delivery = next(&subject.peer).await?;
        let expected = Delivery {
            session: key.clone(),
            up_to,
            deliveries,
        };
        assert_eq!(delivery, expected);
        if deliveries > 1 {
            assert!(began.elapsed() >= subject.silence / 2);
        }
    }
    let letters = subject
        .stores
        .mailbox
        .pending(&key, MailSeq::default(), 10)
        .await?;
    assert_eq!(letters.len(), 1, "a delivery removes nothing");
    Ok(())
}

/// A letter that comes while an older one is at large is announced at once.
pub async fn newer_mail_is_announced_while_older_is_at_large(subject: Subject) -> Outcome {
    let key = session("a")?;
    let first = send(&subject.stores, &key).await?;
    assert_eq!(next(&subject.stores).await?.up_to, first);
    let second = send(&subject.peer, &key).await?;
    let delivery = timeout(subject.silence / 2, subject.stores.mailbox.next()).await??;
    assert_eq!((delivery.session, delivery.up_to), (key, second));
    Ok(())
}

/// An acknowledgement of the older letters leaves the newer ones announced.
pub async fn partly_acknowledged_mail_comes_again(subject: Subject) -> Outcome {
    let (mailbox, key) = (&subject.stores.mailbox, session("a")?);
    let first = send(&subject.stores, &key).await?;
    let second = send(&subject.stores, &key).await?;
    let mut seen = next(&subject.stores).await?.up_to;
    while seen < second {
        seen = seen.max(next(&subject.stores).await?.up_to);
    }
    mailbox.acknowledge(&key, first).await?;
    let again = next(&subject.stores).await?;
    assert_eq!((&again.session, again.up_to), (&key, second));
    mailbox.acknowledge(&key, second).await?;
    assert!(is_quiet(subject.silence * 2, mailbox.next()).await);
    Ok(())
}

/// A session with much mail that is given back all the time does not keep another from its turn.
pub async fn no_session_starves_another(subject: Subject) -> Outcome {
    let mailbox = &subject.stores.mailbox;
    let (busy, quiet) = (session("busy")?, session("quiet")?);
    for _ in 0..50 {
        send(&subject.stores, &busy).await?;
    }
    send(&subject.stores, &quiet).await?;
    for _ in 0..200 {
        let delivery = next(&subject.stores).await?;
        if delivery.session == quiet {
            return Ok(());
        }
        send(&subject.stores, &busy).await?;
        let delay = Duration::from_millis(20);
        mailbox.give_back(delivery, delay).await?;
    }
    Err(Failure::new("200 deliveries and none of the quiet session"))
}

/// A caller that stops waiting takes nothing with it for longer than a silence.
pub async fn a_caller_that_leaves_loses_nothing(subject: Subject) -> Outcome {
    let mailbox = &subject.stores.mailbox;
    for _ in 0..5 {
        assert!(is_quiet(Duration::from_millis(5), mailbox.next()).await);
    }
    let key = session("a")?;
    send(&subject.stores, &key).await?;
    let delivery = next(&subject.stores).await?;
    assert_eq!(delivery.session, key);
    Ok(())
}
