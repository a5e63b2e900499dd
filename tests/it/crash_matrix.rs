//! The crash matrix: kill the process at each point of a turn, under each replay rule, with each
//! durability, on both shapes of transcripts, and judge what is left.
//!
//! In each cell the real binary runs, or the same node on a store that ends its own process at a
//! chosen append. The run that goes on afterwards is always the real binary.

mod cell;
mod judge;
mod model;
mod scenario;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use cell::Cell;
use steadfast_tests::joined;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Cells in a sample.
const SAMPLE: usize = 24;
/// Cells at the same time: each mostly waits for its processes.
const CONCURRENT: usize = 4;

/// A sample by a seed that is printed, or the cells that `STEADFAST_MATRIX` selects: `full`, or the
/// name of one cell, or a part of it.
#[tokio::test]
async fn no_crash_loses_repeats_or_hides_anything() {
    let selected = std::env::var("STEADFAST_MATRIX").unwrap_or_default();
    let cells = match selected.as_str() {
        "" => sample(),
        "full" => Cell::all(),
        part => {
            let named = |cell: &Cell| cell.to_string().contains(part);
            Cell::all().into_iter().filter(named).collect()
        }
    };
    assert!(!cells.is_empty(), "no cell is called {selected:?}");
    let count = cells.len();
    let failures = run(cells).await;
    for (cell, failure) in &failures {
        eprintln!("CELL {cell}: {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} of {count} cells failed",
        failures.len()
    );
}

fn sample() -> Vec<Cell> {
    let seed = match std::env::var("STEADFAST_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
    };
    println!("crash matrix: {SAMPLE} cells by STEADFAST_SEED={seed}");
    let mut cells = Cell::all();
    // The step of a full-period walk: any seed, each cell at most once.
    let mut state = seed;
    let mut sample = Vec::new();
    for _ in 0..SAMPLE {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(state >> 33).unwrap() % cells.len();
        sample.push(cells.swap_remove(at));
    }
    sample
}

/// Runs the cells; those that failed, with why.
async fn run(cells: Vec<Cell>) -> Vec<(Cell, String)> {
    let places = Arc::new(Semaphore::new(CONCURRENT));
    let mut running = JoinSet::new();
    for cell in cells {
        let places = Arc::clone(&places);
        running.spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            let outcome = tokio::spawn(run_cell(cell)).await;
            (cell, outcome.map_err(|error| why(error.into_panic())))
        });
    }
    let mut failures = Vec::new();
    while let Some(done) = running.join_next().await {
        let (cell, outcome) = done.unwrap();
        if let Err(failure) = outcome {
            failures.push((cell, failure));
        }
    }
    failures
}

async fn run_cell(cell: Cell) {
    let played = scenario::play(cell).await;
    let judged = std::panic::catch_unwind(AssertUnwindSafe(|| judge::judge(cell, &played)));
    if let Err(panic) = judged {
        let events = joined::events(&played.frames);
        let log: Vec<String> = events.iter().map(ToString::to_string).collect();
        panic!("{}\nlog:\n{}", why(panic), log.join("\n"));
    }
}

fn why(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or_else(
            |_| "a panic without words".to_owned(),
            |text| (*text).to_owned(),
        ),
    }
}
