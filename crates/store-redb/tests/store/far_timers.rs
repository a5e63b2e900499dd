//! Timers that are too far off to be held in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steadfast_core::id::{Epoch, Timestamp};
use steadfast_store::clock::Clock;
use steadfast_store::timers::Due;
use steadfast_store_redb::{Options, RedbStore};

use crate::disk::Disk;
use crate::samples::session;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// A clock that the test sets.
#[derive(Default)]
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

fn due(name: &str) -> Due {
    Due {
        session: session(name),
        epoch: Epoch(1),
    }
}

#[tokio::test]
async fn a_far_timer_fires_when_its_time_has_come_also_after_a_reopening() {
    let clock = Arc::new(SetClock::default());
    let disk = Disk::default();
    let open = || RedbStore::open_on(disk.source(), Options::default(), clock.clone()).unwrap();
    let store = open();
    let timers = store.stores().timers;
    for (name, days) in [("week", 7), ("tomorrow", 1), ("month", 30)] {
        let at = Timestamp(days * DAY_MS);
        timers.set(&session(name), Epoch(1), at).await.unwrap();
    }
    clock.0.store(DAY_MS, Ordering::SeqCst);
    assert_eq!(timers.next().await, Ok(due("tomorrow")));
    timers.acknowledge(&due("tomorrow")).await.unwrap();
    drop(timers);
    store.close().await.unwrap();

    let store = open();
    let timers = store.stores().timers;
    clock.0.store(7 * DAY_MS - 1, Ordering::SeqCst);
    // Moved from far to near, and from near to far.
    let soon = Timestamp(7 * DAY_MS);
    timers.set(&session("month"), Epoch(1), soon).await.unwrap();
    let late = Timestamp(60 * DAY_MS);
    timers.set(&session("week"), Epoch(1), late).await.unwrap();
    clock.0.store(7 * DAY_MS, Ordering::SeqCst);
    assert_eq!(timers.next().await, Ok(due("month")));
    timers.acknowledge(&due("month")).await.unwrap();
    clock.0.store(60 * DAY_MS, Ordering::SeqCst);
    assert_eq!(timers.next().await, Ok(due("week")));
    drop(timers);
    store.close().await.unwrap();
}
