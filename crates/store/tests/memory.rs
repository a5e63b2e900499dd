//! The store in memory passes the suite.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::Timestamp;
use steadfast_store::clock::TokioClock;
use steadfast_store::memory;
use steadfast_store::suite::Subject;

async fn subject() -> Subject {
    let silence = Duration::from_secs(10);
    let clock = Arc::new(TokioClock::starting_at(Timestamp(1_900_000_000_000)));
    let stores = memory::stores(clock.clone());
    Subject {
        peer: stores.clone(),
        stores,
        clock,
        silence,
        keep: Box::new(()),
    }
}

steadfast_store::conformance!(
    #[tokio::test(start_paused = true)]
    subject
);
