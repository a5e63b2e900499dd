//! Timers: at least once, not early, gone only when acknowledged.

use std::collections::BTreeSet;
use std::time::Duration;

use steadfast_core::id::{Epoch, SessionKey};

use super::samples::session;
use super::{Failure, Outcome, Subject, is_quiet, soon};
use crate::stores::Stores;
use crate::timers::Due;

const HOUR_MS: u64 = 60 * 60 * 1_000;

async fn next(stores: &Stores) -> Result<Due, Failure> {
    Ok(soon("a timer", stores.timers.next()).await??)
}

fn due(session: &SessionKey, epoch: u64) -> Due {
    Due {
        session: session.clone(),
        epoch: Epoch(epoch),
    }
}

/// A timer fires for whoever waits, and not before its time.
pub async fn a_timer_fires_not_before_its_time(subject: Subject) -> Outcome {
    let (clock, key) = (&subject.clock, session("a")?);
    let at = clock.now().plus_ms(300);
    subject.stores.timers.set(&key, Epoch(3), at).await?;
    let fired = next(&subject.peer).await?;
    assert!(clock.now() >= at, "fired at {} for {at}", clock.now());
    assert_eq!(fired, due(&key, 3));
    Ok(())
}

/// A timer whose time has passed fires at once.
pub async fn a_timer_of_the_past_fires_at_once(subject: Subject) -> Outcome {
    let (timers, key) = (&subject.stores.timers, session("a")?);
    let past = steadfast_core::id::Timestamp(subject.clock.now().0.saturating_sub(HOUR_MS));
    timers.set(&key, Epoch(1), past).await?;
    assert_eq!(next(&subject.stores).await?, due(&key, 1));
    Ok(())
}

/// A caller that waits for a late timer is woken by an earlier one that is set meanwhile.
pub async fn an_earlier_timer_wakes_who_waits_for_a_later_one(subject: Subject) -> Outcome {
    let (timers, key) = (&subject.stores.timers, session("a")?);
    let late = subject.clock.now().plus_ms(HOUR_MS);
    timers.set(&session("late")?, Epoch(1), late).await?;
    let (fired, set) = tokio::join!(next(&subject.stores), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let soon = subject.clock.now().plus_ms(50);
        subject.peer.timers.set(&key, Epoch(1), soon).await
    });
    set?;
    assert_eq!(fired?, due(&key, 1));
    Ok(())
}

/// Each session and epoch has a timer of its own.
pub async fn sessions_and_epochs_have_timers_of_their_own(subject: Subject) -> Outcome {
    let timers = &subject.stores.timers;
    let at = subject.clock.now().plus_ms(20);
    let mut waiting = BTreeSet::new();
    for name in ["a", "b", "a-b"] {
        for epoch in [1, 2, 11] {
            let key = session(name)?;
            timers.set(&key, Epoch(epoch), at).await?;
            waiting.insert(due(&key, epoch));
        }
    }
    while !waiting.is_empty() {
        let fired = next(&subject.stores).await?;
        timers.acknowledge(&fired).await?;
        assert!(waiting.remove(&fired), "{fired:?} again");
    }
    assert!(is_quiet(subject.silence * 2, timers.next()).await);
    Ok(())
}

/// A timer that is not acknowledged fires again; one that is, never.
pub async fn a_timer_fires_until_it_is_acknowledged(subject: Subject) -> Outcome {
    let (timers, key) = (&subject.stores.timers, session("a")?);
    timers.set(&key, Epoch(1), subject.clock.now()).await?;
    assert_eq!(next(&subject.stores).await?, due(&key, 1));
    assert!(is_quiet(subject.silence / 2, timers.next()).await);
    let fired = next(&subject.stores).await?;
    assert_eq!(fired, due(&key, 1));
    for _ in 0..2 {
        timers.acknowledge(&fired).await?;
        assert!(is_quiet(subject.silence * 2, timers.next()).await);
    }
    Ok(())
}

/// A timer set again fires at its new time only.
pub async fn a_timer_set_again_is_moved(subject: Subject) -> Outcome {
    let (timers, clock) = (&subject.stores.timers, &subject.clock);
    let (sooner, later) = (session("sooner")?, session("later")?);
    let now = clock.now();
    timers.set(&sooner, Epoch(1), now.plus_ms(HOUR_MS)).await?;
    timers.set(&sooner, Epoch(1), now.plus_ms(400)).await?;
    timers.set(&later, Epoch(1), now.plus_ms(400)).await?;
    timers.set(&later, Epoch(1), now.plus_ms(1_000)).await?;
    for (key, at) in [(sooner, now.plus_ms(400)), (later, now.plus_ms(1_000))] {
        let fired = next(&subject.stores).await?;
        assert_eq!(fired, due(&key, 1));
        assert!(clock.now() >= at);
        timers.acknowledge(&fired).await?;
    }
    assert!(is_quiet(subject.silence * 2, timers.next()).await);
    Ok(())
}

/// A timer acknowledged in one epoch can be set in the next.
pub async fn a_session_sets_timers_epoch_after_epoch(subject: Subject) -> Outcome {
    let (timers, key) = (&subject.stores.timers, session("a")?);
    for epoch in 1..=5 {
        let at = subject.clock.now().plus_ms(10);
        timers.set(&key, Epoch(epoch), at).await?;
        let fired = next(&subject.stores).await?;
        assert_eq!(fired, due(&key, epoch));
        timers.acknowledge(&fired).await?;
    }
    Ok(())
}
