//! `steadfast-sim explore [--scope NAME] [--seconds N]` searches a small world as deep as asked;
//! `steadfast-sim simulate --seed N` replays a seed, `--seeds N` runs many.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use steadfast_sim::explore::{Bounds, explore, scope};
use steadfast_sim::simulate::{Mistake, Setup, simulate};

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
    /// Run the real runtime on seeds.
    Simulate {
        /// Only this seed, with all that happened.
        #[arg(long)]
        seed: Option<u64>,
        /// The first of many seeds.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// How many seeds.
        #[arg(long, default_value_t = 1_000)]
        seeds: u64,
        /// So many nodes; default: the seed says.
        #[arg(long)]
        nodes: Option<u64>,
        /// With this bug put back.
        #[arg(long)]
        mistake: Option<String>,
    },
}

fn main() -> ExitCode {
    let (seed, from, seeds, nodes, mistake) = match Arguments::parse().command {
        Command::Explore {
            scope,
            seconds,
            states,
        } => return search(scope, seconds, states),
        Command::Simulate {
            seed,
            from,
            seeds,
            nodes,
            mistake,
        } => (seed, from, seeds, nodes, mistake),
    };
    let mistake = match mistake.map(|name| mistake_of(&name).ok_or(name)) {
        Some(Err(name)) => {
            eprintln!("there is no mistake {name:?}");
            return ExitCode::FAILURE;
        }
        Some(Ok(mistake)) => Some(mistake),
        None => None,
    };
    let setup = |seed| Setup {
        mistake,
        ..nodes.map_or_else(|| Setup::of_seed(seed), Setup::cluster)
    };
    match seed {
        Some(seed) => replay(seed, &setup(seed)),
        None => run_many(from, seeds, setup),
    }
}

fn mistake_of(name: &str) -> Option<Mistake> {
    let mut all = Mistake::ALL.iter().chain(&Mistake::OF_CLUSTERS);
    all.find(|mistake| format!("{mistake:?}") == name).copied()
}

fn replay(seed: u64, setup: &Setup) -> ExitCode {
    // The runtime's own log beside the trace, when `RUST_LOG` asks for it.
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .without_time()
        .init();
    let report = simulate(seed, setup);
    for line in &report.trace {
        println!("{line}");
    }
    println!(
        "{} records, {} crashes, broken: {:#?}",
        report.records, report.crashes, report.broken
    );
    if report.broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_many(from: u64, seeds: u64, setup: impl Fn(u64) -> Setup) -> ExitCode {
    let started = Instant::now();
    let (mut failed, mut records, mut crashes) = (0_u64, 0, 0);
    for seed in from..from.saturating_add(seeds) {
        let report = simulate(seed, &setup(seed));
        records += report.records;
        crashes += report.crashes;
        if let Some(how) = report.broken.first() {
            failed += 1;
            println!("seed {seed}: {how}");
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds, {records} records, {crashes} crashes, {failed} failed, {seconds:.0} s"
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn search(wanted: Option<String>, seconds: u64, states: usize) -> ExitCode {
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
