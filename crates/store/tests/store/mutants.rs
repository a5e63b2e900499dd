//! Stores with one fault each: the suite finds every one of them.

mod jobs;
mod log;
mod queues;
mod shelves;

use std::sync::Arc;
use std::time::Duration;

use steadfast_store::Stores;
use steadfast_store::clock::TokioClock;
use steadfast_store::memory;
use steadfast_store::suite::{Outcome, Subject};

use crate::samples::START;

/// A store in memory, changed by `break_it`.
fn broken(break_it: impl FnOnce(&mut Stores)) -> Subject {
    let clock = Arc::new(TokioClock::starting_at(START));
    let mut stores = memory::stores(clock.clone());
    break_it(&mut stores);
    Subject {
        peer: stores.clone(),
        stores,
        clock,
        silence: Duration::from_secs(10),
        keep: Box::new(()),
    }
}

/// The case fails, by an error or by an assertion.
async fn fails<F>(name: &str, case: F)
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let outcome = tokio::spawn(case).await;
    assert!(!matches!(outcome, Ok(Ok(()))), "{name} was not found");
}
