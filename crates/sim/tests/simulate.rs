//! The real runtime keeps its promises under faults, and the simulator would notice if it did not.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use steadfast_sim::simulate::{Mistake, Setup, Troubles, simulate};

/// Seeds that once broke a promise.
const REGRESSIONS: &[u64] = &[5403, 5595, 100_512, 101_323];

/// Time for fresh seeds.
const BUDGET: Duration = Duration::from_secs(20);

fn check(seed: u64, setup: &Setup) {
    let report = simulate(seed, setup);
    assert_eq!(report.broken, Vec::<String>::new(), "seed {seed}");
}

#[test]
fn seeds_that_once_failed_hold() {
    for seed in REGRESSIONS {
        check(*seed, &Setup::default());
    }
}

#[test]
fn fresh_seeds_hold() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = since.as_nanos() as u64;
    let (started, mut seeds) = (Instant::now(), 0);
    while started.elapsed() < BUDGET {
        let seed = first.wrapping_add(seeds);
        check(seed, &Setup::of_seed(seed));
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
    for seed in [724, 760, 700_840, 800_092, 1_796_095_467_326_224_664] {
        check(seed, &Setup::of_seed(seed));
    }
    for seed in [13, 101, 424, 1032, 1068, 1212, 1_796_070_230_057_859_260] {
        // Drawn before there were elections and remote tools.
        let setup = Setup {
            wide: false,
            remote: false,
            ..Setup::of_seed(seed)
        };
        check(seed, &setup);
    }
}

/// How each mistake of several nodes is looked for: on which runs, and on how many of them.
fn searches() -> Vec<(Mistake, Setup, std::ops::Range<u64>)> {
    let narrow = Setup {
        wide: false,
        remote: false,
        ..Setup::cluster(2)
    };
    let wide = Setup::cluster(2);
    // Nothing befalls a node but what the mistake is about.
    let whole = Setup {
        faults: false,
        troubles: Troubles::Stops,
        ..Setup::cluster(2)
    };
    let elected = Setup {
        crashes_max: 0,
        ..Setup::cluster(2)
    };
    let killed = Setup {
        troubles: Troubles::Kills,
        actions: 4,
        ..Setup::cluster(2)
    };
    let late = Setup {
        late_permille: 400,
        pause_ms: 5_000,
        crashes_max: 12,
        sessions: 4,
        ..killed.clone()
    };
    vec![
        (Mistake::MailRemovedWhenRead, narrow.clone(), 0..200),
        (Mistake::ReleaseLosesWakeUp, narrow, 0..200),
        (Mistake::MailRemovedAtDelivery, wide.clone(), 1..20),
        (Mistake::JobRunsWithoutClaim, wide, 1..20),
        (Mistake::LettingGoCutsCalls, whole, 1..100),
        (Mistake::SuspectsDuringElection, elected, 1..200),
        (Mistake::IndexWrittenLate, killed, 1..200),
        (Mistake::EntryRemovedByName, late, 1..200),
    ]
}

#[test]
fn each_mistake_of_several_nodes_is_found() {
    for (mistake, setup, mut seeds) in searches() {
        let found = seeds.find_map(|seed| {
            let mistaken = Setup {
                mistake: Some(mistake),
                ..setup.clone()
            };
            let broken = simulate(seed, &mistaken).broken;
            // Without the mistake the same seed holds.
            let whole = || simulate(seed, &setup).broken.is_empty();
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
