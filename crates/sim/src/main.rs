//! `steadfast-sim explore [--scope NAME] [--seconds N]`: searches a small world as deep as asked.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use steadfast_sim::explore::{Bounds, explore, scope};

/// Finds bugs in the session state machine and in the driver.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Search every interleaving of small worlds.
    Explore {
        /// Only this scope.
        #[arg(long)]
        scope: Option<String>,
        /// Time for each scope.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Different states of each scope, at most; about 100 bytes each.
        #[arg(long, default_value_t = 10_000_000)]
        states: usize,
    },
}

fn main() -> ExitCode {
    let Command::Explore {
        scope: wanted,
        seconds,
        states,
    } = Arguments::parse().command;
    let bounds = Bounds {
        states_max: states,
        time_max: Duration::from_secs(seconds),
    };
    let mut broken = false;
    for scope in scope::all() {
        if wanted.as_deref().is_some_and(|wanted| wanted != scope.name) {
            continue;
        }
        let report = explore(&scope, None, bounds);
        println!("{}: {report:#?}", scope.name);
        broken |= report.violation.is_some();
    }
    if broken {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
