//! The core keeps its promises in every interleaving of a small world, and the search would notice
//! if it did not.

use std::time::Duration;

use steadfast_sim::explore::mutant::Mutant;
use steadfast_sim::explore::{Bounds, explore, scope};

/// All scopes together take about ten seconds and, with hashes of 16 bytes, far under 2 GiB. States
/// are counted, not time: a busy machine searches as far as an idle one.
const BOUNDS: Bounds = Bounds {
    states_max: 20_000,
    time_max: Duration::from_secs(150),
};

#[test]
fn every_interleaving_keeps_the_promises() {
    for scope in scope::all() {
        let report = explore(&scope, None, BOUNDS);
        println!("{}: {report:?}", scope.name);
        assert_eq!(report.violation, None, "in scope {}", scope.name);
        assert!(
            report.states > 100,
            "scope {} is hardly searched: {report:?}",
            scope.name
        );
    }
}

/// Looks into all scopes a little before it looks into any deeply.
fn find(mutant: Mutant) -> Option<String> {
    [1_000, 4_000, 16_000, 64_000]
        .into_iter()
        .find_map(|states_max| {
            let bounds = Bounds {
                states_max,
                ..BOUNDS
            };
            scope::all().iter().find_map(|scope| {
                let violation = explore(scope, Some(mutant), bounds).violation?;
                Some(format!("{}: {}", scope.name, violation.promise))
            })
        })
}

#[test]
fn each_bug_put_back_is_found() {
    for mutant in Mutant::ALL {
        let found = find(mutant);
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?} was not found");
    }
}
