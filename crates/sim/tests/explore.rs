//! The core keeps its promises in every interleaving of a small world, and the search would notice
//! if it did not.

use std::time::Duration;

use steadfast_sim::explore::mutant::Mutant;
use steadfast_sim::explore::{Bounds, explore, scope};

/// All scopes together stay under ten seconds and, with hashes of 16 bytes, far under 2 GiB.
const BOUNDS: Bounds = Bounds {
    states_max: 2_000_000,
    time_max: Duration::from_millis(1_250),
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

#[test]
fn each_bug_put_back_is_found() {
    for mutant in Mutant::ALL {
        let found = scope::all().iter().find_map(|scope| {
            let violation = explore(scope, Some(mutant), BOUNDS).violation?;
            Some(format!("{}: {}", scope.name, violation.promise))
        });
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?} was not found");
    }
}
