//! What passes the suite.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use steadfast_core::id::Timestamp;
use steadfast_store::clock::{Clock, SystemClock, TokioClock};
use steadfast_store::fault::{FaultLayer, FaultPlan, Odds};
use steadfast_store::memory;
use steadfast_store::suite::Subject;

fn subject(clock: Arc<dyn Clock>, silence: Duration) -> Subject {
    let stores = memory::stores_with(Arc::clone(&clock), silence, silence);
    Subject {
        peer: stores.clone(),
        stores,
        clock,
        silence,
        keep: Box::new(()),
    }
}

/// A subject whose two nodes have a connection of their own each.
fn faulty(odds: Odds) -> Subject {
    let clock = Arc::new(TokioClock::starting_at(Timestamp(1_900_000_000_000)));
    let inner = subject(clock, Duration::from_secs(10));
    let layer = |stores, seed| {
        let rng = SmallRng::seed_from_u64(seed);
        FaultLayer::new(stores, Arc::new(FaultPlan::new(rng, odds)))
    };
    let (one, other) = (layer(&inner.stores, 1), layer(&inner.peer, 2));
    Subject {
        stores: one.stores().clone(),
        peer: other.stores().clone(),
        keep: Box::new((one, other)),
        ..inner
    }
}

mod in_memory {
    use super::*;

    async fn paused() -> Subject {
        let clock = TokioClock::starting_at(Timestamp(1_900_000_000_000));
        subject(Arc::new(clock), Duration::from_secs(10))
    }

    steadfast_store::conformance!(
        #[tokio::test(start_paused = true)]
        paused
    );

    steadfast_store::tool_queue_conformance!(
        #[tokio::test(start_paused = true)]
        paused
    );
}

mod in_memory_on_many_threads {
    use super::*;

    async fn hurried() -> Subject {
        subject(Arc::new(SystemClock), Duration::from_millis(600))
    }

    steadfast_store::conformance!(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        hurried
    );

    steadfast_store::tool_queue_conformance!(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        hurried
    );
}

mod through_a_quiet_layer {
    use super::*;

    async fn quiet() -> Subject {
        faulty(Odds::NONE)
    }

    steadfast_store::conformance!(
        #[tokio::test(start_paused = true)]
        quiet
    );

    steadfast_store::tool_queue_conformance!(
        #[tokio::test(start_paused = true)]
        quiet
    );
}

/// The suite asks for nothing that a cluster on a good day does not give: slow answers, replicas
/// that are behind.
mod through_a_slow_layer_with_stale_reads {
    use super::*;

    async fn slow() -> Subject {
        faulty(Odds {
            stale_permille: 300,
            latency_max: Duration::from_millis(8),
            ..Odds::NONE
        })
    }

    steadfast_store::conformance!(
        #[tokio::test(start_paused = true)]
        slow
    );

    steadfast_store::tool_queue_conformance!(
        #[tokio::test(start_paused = true)]
        slow
    );
}
