//! Chaos on real processes: three nodes on three brokers that keep three copies, sessions whose tools
//! have effects outside, readers at other nodes, and one failure at a time.
//!
//! ```text
//!   clients, followers --HTTP--> 3 nodes --wires that can be cut--> 3 brokers
//!          |                        |                                   |
//!          |                        +--tools--> ledgers outside         |
//!          +-----------------> the judge <-----------(the log, read)----+
//! ```
//!
//! Each round begins a load of new sessions, lets one scenario befall the cluster, and when all is
//! whole again gives the sessions a bounded time to end. What then stands in the log is held against
//! the promises that the simulator watches, and against what the ledgers, the clients and the
//! followers saw.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so and ends"
)]

mod cluster;
mod judge;
mod load;
mod scenario;

use std::time::{Duration, Instant};

use cluster::Cluster;
use load::Load;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use scenario::Scenario;

/// Rounds in a sample.
const SAMPLE: usize = 3;
/// Sessions of one round.
const SESSIONS: usize = 18;
/// After the last failure everything has ended within this time, on a machine that is not busy.
const CALM_MAX: Duration = Duration::from_secs(30);
/// On a busy machine it may take longer by so many turns of the time before the failure.
const CALM_TURNS: u32 = 20;

/// A sample by a seed that is printed, or what `STEADFAST_CHAOS` selects: `all`, or a part of the
/// scenarios' names, `STEADFAST_CHAOS_ROUNDS` times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_failure_of_a_cluster_loses_repeats_or_hides_anything() {
    let seed = number("STEADFAST_SEED")
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_secs());
    let selected = std::env::var("STEADFAST_CHAOS").unwrap_or_default();
    let rounds = number("STEADFAST_CHAOS_ROUNDS").unwrap_or(1);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut scenarios = Scenario::ALL.to_vec();
    match selected.as_str() {
        "" => {
            scenarios.shuffle(&mut random);
            scenarios.truncate(SAMPLE);
        }
        "all" => {}
        part => scenarios.retain(|scenario| scenario.to_string().contains(part)),
    }
    assert!(!scenarios.is_empty(), "no scenario is called {selected:?}");
    println!("chaos: {rounds} rounds of {scenarios:?} by STEADFAST_SEED={seed}");
    let mut cluster = Cluster::start().await;
    let mut failures = Vec::new();
    for round in 0..rounds {
        for &scenario in &scenarios {
            let seed = random.random();
            let name = format!("r{round}{scenario}");
            failures.extend(play(&mut cluster, scenario, &name, seed).await);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap())
}

/// One round; what is wrong with it.
async fn play(cluster: &mut Cluster, scenario: Scenario, name: &str, seed: u64) -> Vec<String> {
    let start = Instant::now();
    let mut random = SmallRng::seed_from_u64(seed);
    let load = Load::start(cluster, name, SESSIONS, &mut random).await;
    let undisturbed = load.warm_up().await;
    println!("{name}: a turn took {undisturbed:.1?} so far");
    let befell = match scenario.play(cluster, &mut random).await {
        Ok(befell) => befell,
        Err(why) => {
            steadfast_tests::left_out::say(&format!("{scenario}"), &why);
            load.finish(CALM_MAX).await;
            return Vec::new();
        }
    };
    let healed = Instant::now();
    let limit = CALM_MAX + undisturbed * CALM_TURNS;
    let lived = load.finish(limit).await;
    let calm = healed.elapsed();
    let failures = judge::judge(cluster, &befell, lived).await;
    println!(
        "{name}: {} after {:.1?}, calm after {calm:.1?}: {befell}",
        if failures.is_empty() {
            "held"
        } else {
            "FAILED"
        },
        start.elapsed(),
    );
    for failure in &failures {
        println!("{name}: {failure}");
    }
    failures
}
