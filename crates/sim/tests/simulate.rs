//! The real runtime keeps its promises under faults, and the simulator would notice if it did not.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use steadfast_sim::simulate::{Mistake, Setup, simulate};

/// Seeds that once broke a promise.
const REGRESSIONS: &[u64] = &[5403, 5595, 100_512, 101_323];

/// Time for fresh seeds.
const BUDGET: Duration = Duration::from_secs(20);

fn check(seed: u64) {
    let report = simulate(seed, &Setup::default());
    assert_eq!(report.broken, Vec::<String>::new(), "seed {seed}");
}

#[test]
fn seeds_that_once_failed_hold() {
    REGRESSIONS.iter().copied().for_each(check);
}

/// On one node; runs of several nodes are searched by `steadfast-sim simulate`.
#[test]
fn fresh_seeds_hold() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = since.as_nanos() as u64;
    let (started, mut seeds) = (Instant::now(), 0);
    while started.elapsed() < BUDGET {
        check(first.wrapping_add(seeds));
        seeds += 1;
    }
    println!("{seeds} seeds from {first}");
}

#[test]
fn two_runs_of_a_seed_are_equal_to_the_byte() {
    for seed in [1, 2, 3, 4, 5, 13, 17] {
        let setup = Setup::of_seed(seed);
        let (one, two) = (simulate(seed, &setup), simulate(seed, &setup));
        assert_eq!(one, two, "seed {seed}");
        assert!(one.records > 10, "seed {seed} hardly does anything");
    }
}

#[test]
fn seeds_of_several_nodes_that_once_failed_hold() {
    for seed in [13, 101, 424, 1032, 1068, 1212, 1_796_070_230_057_859_260] {
        let report = simulate(seed, &Setup::of_seed(seed));
        assert_eq!(report.broken, Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn each_mistake_of_several_nodes_is_found() {
    for mistake in Mistake::OF_CLUSTERS {
        let setup = Setup {
            mistake: Some(mistake),
            ..Setup::cluster(2)
        };
        let found = (0..200).find_map(|seed| {
            let broken = simulate(seed, &setup).broken;
            // Without the mistake the same seed holds.
            let whole = || simulate(seed, &Setup::cluster(2)).broken.is_empty();
            let how = broken.into_iter().next().filter(|_| whole());
            how.map(|how| (seed, how))
        });
        println!("{mistake:?}: {found:?}");
        assert!(found.is_some(), "{mistake:?} was not found");
    }
}

#[test]
fn each_mistake_put_back_is_found() {
    for mistake in Mistake::ALL {
        let setup = Setup {
            mistake: Some(mistake),
            ..Setup::default()
        };
        let found = (0..300).find_map(|seed| {
            let broken = simulate(seed, &setup).broken;
            broken.into_iter().next().map(|how| (seed, how))
        });
        println!("{mistake:?}: {found:?}");
        assert!(found.is_some(), "{mistake:?} was not found");
    }
}
