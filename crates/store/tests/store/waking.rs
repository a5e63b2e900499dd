//! What wakes sessions within one process, by random calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::id::{Epoch, Timestamp};
use steadfast_store::clock::{Clock, TokioClock};
use steadfast_store::local::{MailQueue, TimerQueue};
use steadfast_store::mailbox::MailSeq;
use steadfast_store::timers::Due;
use tokio::time::timeout;

use crate::samples::{START, pause, session};

const SILENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
enum Step {
    Arrive {
        session: u8,
    },
    Take,
    Acknowledge {
        held: prop::sample::Index,
    },
    GiveBack {
        held: prop::sample::Index,
        delay_ms: u16,
    },
    Wait {
        ms: u16,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u8..4).prop_map(|session| Step::Arrive { session }),
        Just(Step::Take),
        any::<prop::sample::Index>().prop_map(|held| Step::Acknowledge { held }),
        (any::<prop::sample::Index>(), any::<u16>())
            .prop_map(|(held, delay_ms)| Step::GiveBack { held, delay_ms }),
        (0_u16..12_000).prop_map(|ms| Step::Wait { ms }),
    ]
}

fn paused<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(run)
}

/// Runs steps, then takes whatever comes: every session with letters is announced up to its newest
/// within a silence and the longest delay, and no other.
async fn run(steps: Vec<Step>) {
    let queue = MailQueue::new(SILENCE);
    let (mut newest, mut held) = (BTreeMap::new(), Vec::new());
    let mut letters = 0;
    for step in steps {
        match step {
            Step::Arrive { session: number } => {
                letters += 1;
                let key = session(&number.to_string());
                queue.arrived(&key, MailSeq(letters));
                newest.insert(key, MailSeq(letters));
            }
            Step::Take => {
                if let Ok(delivery) = timeout(Duration::ZERO, queue.next()).await {
                    assert_eq!(newest.get(&delivery.session), Some(&delivery.up_to));
                    held.push(delivery);
                }
            }
            Step::Acknowledge { held: which } if !held.is_empty() => {
                let delivery = held.remove(which.index(held.len()));
                queue.acknowledged(&delivery.session, delivery.up_to);
                if newest.get(&delivery.session) <= Some(&delivery.up_to) {
                    newest.remove(&delivery.session);
                }
            }
            Step::GiveBack {
                held: which,
                delay_ms,
            } if !held.is_empty() => {
                let delivery = held.remove(which.index(held.len()));
                queue.give_back(&delivery, Duration::from_millis(delay_ms.into()));
            }
            Step::Wait { ms } => pause(ms.into()).await,
            Step::Acknowledge { .. } | Step::GiveBack { .. } => {}
        }
    }
    let longest = SILENCE + Duration::from_millis(u16::MAX.into());
    let everything = async {
        while !newest.is_empty() {
            let delivery = queue.next().await;
            let expected = newest.remove(&delivery.session);
            assert_eq!(expected, Some(delivery.up_to), "{delivery:?}");
            queue.acknowledged(&delivery.session, delivery.up_to);
        }
    };
    timeout(longest, everything)
        .await
        .expect("a session was not announced");
    let more = timeout(longest * 2, queue.next()).await;
    assert!(more.is_err(), "{more:?} has no letters");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_session_with_letters_is_announced(steps in proptest::collection::vec(step(), 0..40)) {
        paused(run(steps));
    }
}

/// A clock that was set and does not follow tokio's.
struct SetClock(std::sync::Mutex<Timestamp>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_follows_a_clock_that_is_set() {
    let clock = Arc::new(SetClock(std::sync::Mutex::new(START)));
    let timers = TimerQueue::new(clock.clone(), SILENCE);
    let key = session("a");
    timers.set(&key, Epoch(1), START.plus_ms(3_600_000));
    let late = timeout(Duration::from_secs(7_200), timers.next()).await;
    assert!(late.is_err(), "fired although the clock stands still");
    *clock.0.lock().unwrap() = START.plus_ms(3_600_000);
    let fired = timeout(Duration::from_secs(60), timers.next()).await;
    let due = Due {
        session: key,
        epoch: Epoch(1),
    };
    assert_eq!(fired, Ok(due));
}

#[tokio::test(start_paused = true)]
async fn timers_fire_in_the_order_of_their_times() {
    let clock = Arc::new(TokioClock::starting_at(START));
    let timers = TimerQueue::new(clock, SILENCE);
    for (epoch, at_ms) in [(1, 900), (2, 300), (3, 600), (4, 301)] {
        timers.set(&session("a"), Epoch(epoch), START.plus_ms(at_ms));
    }
    let mut epochs = Vec::new();
    for _ in 0..4 {
        epochs.push(timers.next().await.epoch.0);
    }
    assert_eq!(epochs, [2, 4, 3, 1]);
}
