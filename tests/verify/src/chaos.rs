//! Which failures befall a cluster.

use std::process::Command;

/// Name of the test that plays them.
const TEST: &str = "no_failure_of_a_cluster_loses_repeats_or_hides_anything";

/// Scenarios, rounds and seed.
pub(crate) struct Chaos<'a> {
    scenario: &'a str,
    rounds: u64,
    seed: Option<u64>,
}

impl<'a> Chaos<'a> {
    /// Reads the arguments of the command.
    pub(crate) fn parse(arguments: &'a [String]) -> Option<Self> {
        let mut chaos = Self {
            scenario: "all",
            rounds: 1,
            seed: None,
        };
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(option) = rest.next() {
            let value = rest.next()?;
            match option {
                "--scenario" => chaos.scenario = value,
                "--rounds" => chaos.rounds = value.parse().ok()?,
                "--seed" => chaos.seed = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(chaos)
    }

    /// Has the tests' command run just these.
    pub(crate) fn select(&self, tests: &mut Command) {
        tests
            .arg(TEST)
            .env("STEADFAST_CHAOS", self.scenario)
            .env("STEADFAST_CHAOS_ROUNDS", self.rounds.to_string());
        if let Some(seed) = self.seed {
            tests.env("STEADFAST_SEED", seed.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_in_any_order_and_odd_ones_are_refused() {
        let arguments = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let all = arguments("--seed 7 --rounds 20 --scenario Node");
        let chaos = Chaos::parse(&all).unwrap();
        let parts = (chaos.scenario, chaos.rounds, chaos.seed);
        assert_eq!(parts, ("Node", 20, Some(7)));
        for odd in ["--rounds", "--rounds many", "--all yes"] {
            assert!(Chaos::parse(&arguments(odd)).is_none(), "{odd}");
        }
    }
}
