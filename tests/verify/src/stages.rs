//! Commands run one after another, with their times.

use std::process::Command;
use std::time::{Duration, Instant};

/// What ran so far.
#[derive(Default)]
pub(crate) struct Stages {
    done: Vec<(&'static str, Duration, bool)>,
}

impl Stages {
    /// Runs a command with this program's own output; whether it succeeded.
    pub(crate) fn run(&mut self, name: &'static str, command: &mut Command) -> bool {
        println!("--- {name}");
        let start = Instant::now();
        let succeeded = match command.status() {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("verify: {name} could not be started: {error}");
                false
            }
        };
        self.done.push((name, start.elapsed(), succeeded));
        succeeded
    }

    /// Prints the time and outcome of each.
    pub(crate) fn print(&self) {
        for (name, time, succeeded) in &self.done {
            let outcome = if *succeeded { "ok" } else { "FAILED" };
            println!("--- {name:<10} {:>7.1} s  {outcome}", time.as_secs_f64());
        }
    }
}
