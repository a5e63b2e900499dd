//! Frames of running steps.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::{Epoch, Seq, SessionKey, TurnId};
use steadfast_protocol::live::{Delta, LiveFrame};
use tokio::time::timeout;

use super::samples::{session, session_of};
use super::{Failure, Outcome, Subject, is_quiet, soon};
use crate::live::{FOLLOWER_FRAMES_MAX, LiveSignal};
use crate::stores::Stores;

type Follower = BoxStream<'static, LiveSignal>;

fn frame(n: u64) -> Arc<LiveFrame> {
    Arc::new(LiveFrame {
        epoch: Epoch(1),
        turn: TurnId(Seq(2)),
        step: 1,
        attempt: 1,
        n,
        delta: Delta::Text {
            part: 0,
            text: format!("piece {n}"),
        },
    })
}

/// Publishes frame 0 until a new follower hears it: over a network it takes a moment until a
/// subscription reaches every node.
async fn connect(stores: &Stores, key: &SessionKey, follower: &mut Follower) -> Outcome {
    let heard = async {
        loop {
            stores.live.publish(key, frame(0));
            if timeout(Duration::from_millis(50), follower.next())
                .await
                .is_ok()
            {
                return;
            }
        }
    };
    soon("a first frame", heard).await
}

/// The next signal that is not an echo of [`connect`].
async fn next(follower: &mut Follower) -> Result<LiveSignal, Failure> {
    loop {
        let signal = soon("a frame", follower.next()).await?;
        match signal {
            Some(LiveSignal::Frame(frame)) if frame.n == 0 => {}
            Some(signal) => return Ok(signal),
            None => return Err(Failure::new("the stream of frames ended")),
        }
    }
}

/// Every follower on every node gets the frames in order.
pub async fn frames_come_in_order(subject: Subject) -> Outcome {
    let key = session("a")?;
    let mut followers = [
        subject.stores.live.subscribe(&key).await?,
        subject.stores.live.subscribe(&key).await?,
        subject.peer.live.subscribe(&key).await?,
    ];
    for follower in &mut followers {
        connect(&subject.stores, &key, follower).await?;
    }
    for n in 1..=100 {
        subject.stores.live.publish(&key, frame(n));
    }
    for follower in &mut followers {
        for n in 1..=100 {
            assert_eq!(next(follower).await?, LiveSignal::Frame(frame(n)));
        }
    }
    Ok(())
}

/// A follower that does not read never holds the owner up; it learns of its loss and goes on.
pub async fn a_slow_follower_is_told_that_frames_are_lost(subject: Subject) -> Outcome {
    let key = session("a")?;
    let mut follower = subject.peer.live.subscribe(&key).await?;
    connect(&subject.stores, &key, &mut follower).await?;
    let frames = 40 * FOLLOWER_FRAMES_MAX as u64;
    for n in 1..=frames {
        subject.stores.live.publish(&key, frame(n));
    }
    let (mut newest, mut losses) = (0, 0);
    while let Ok(signal) = timeout(Duration::from_secs(1), follower.next()).await {
        match signal {
            Some(LiveSignal::Frame(frame)) if frame.n == 0 => {}
            Some(LiveSignal::Frame(frame)) => {
                let n = frame.n;
                assert!(n > newest, "frame {n} after {newest}");
                assert!(n == newest + 1 || losses > 0, "a loss without notice");
                newest = n;
            }
            Some(LiveSignal::Lost) => losses += 1,
            None => return Err(Failure::new("the stream of frames ended")),
        }
    }
    assert!(
        losses > 0,
        "up to {newest} of {frames} and no word of a loss"
    );
    subject.stores.live.publish(&key, frame(frames + 1));
    loop {
        match next(&mut follower).await? {
            LiveSignal::Lost => {}
            LiveSignal::Frame(heard) => {
                assert_eq!(heard, frame(frames + 1));
                return Ok(());
            }
        }
    }
}

/// A follower gets the frames of its session only, and none from before.
pub async fn a_follower_gets_its_sessions_frames_only(subject: Subject) -> Outcome {
    let key = session("a")?;
    subject.stores.live.publish(&key, frame(7));
    let mut follower = subject.stores.live.subscribe(&key).await?;
    connect(&subject.stores, &key, &mut follower).await?;
    for stranger in [session("a-1")?, session_of("u", "a")?] {
        let mut other = subject.stores.live.subscribe(&stranger).await?;
        connect(&subject.stores, &stranger, &mut other).await?;
        subject.stores.live.publish(&stranger, frame(8));
        assert_eq!(next(&mut other).await?, LiveSignal::Frame(frame(8)));
    }
    assert!(is_quiet(Duration::from_millis(100), next(&mut follower)).await);
    subject.stores.live.publish(&key, frame(9));
    assert_eq!(next(&mut follower).await?, LiveSignal::Frame(frame(9)));
    Ok(())
}

/// A follower that leaves does not disturb the one that stays.
pub async fn a_follower_may_leave(subject: Subject) -> Outcome {
    let key = session("a")?;
    let mut stays = subject.stores.live.subscribe(&key).await?;
    let leaves = subject.stores.live.subscribe(&key).await?;
    connect(&subject.stores, &key, &mut stays).await?;
    drop(leaves);
    subject.stores.live.publish(&key, frame(1));
    assert_eq!(next(&mut stays).await?, LiveSignal::Frame(frame(1)));
    drop(stays);
    subject.stores.live.publish(&key, frame(2));
    Ok(())
}
