//! Exhaustive search over the real core in a tiny world: two owners, crashes, lost
//! acknowledgements, appends that land late, duplicates, stale owners, a model that answers
//! differently when asked again.
//!
//! Depth first, states kept as 16-byte hashes, bounded in states and time. A violation comes with
//! the actions that lead to it.

mod checks;
pub mod mutant;
mod owner;
pub mod scope;
mod steps;
mod world;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use mutant::Mutant;
use scope::Scope;
use world::World;

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Different states seen.
    pub states: usize,
    /// States in which nothing more can happen.
    pub ends: usize,
    /// The whole scope was searched, not only as far as the bounds allow.
    pub complete: bool,
    /// The first broken promise.
    pub violation: Option<Violation>,
}

/// A broken promise and how it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise, and how it is broken.
    pub promise: String,
    /// The actions that lead there.
    pub path: Vec<String>,
}

/// Bounds of a search.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Different states, at most.
    pub states_max: usize,
    /// Time, at most.
    pub time_max: Duration,
}

/// Searches all that may happen in a scope.
pub fn explore(scope: &Scope, mutant: Option<Mutant>, bounds: Bounds) -> Report {
    let started = Instant::now();
    let first = World::new(scope, mutant);
    let mut seen: HashSet<u128> = HashSet::from([first.hash()]);
    // Each frame: a world, and the labels and successors of it that are still to be visited.
    let mut stack = vec![Frame::new(first, String::new(), scope)];
    let mut report = Report {
        states: 1,
        ends: 0,
        complete: true,
        violation: None,
    };
    while let Some(frame) = stack.last_mut() {
        if let Some(promise) = frame.broken.take() {
            let path = stack
                .iter()
                .map(|frame| frame.label.clone())
                .skip(1)
                .collect();
            report.violation = Some(Violation { promise, path });
            break;
        }
        let Some((label, next)) = frame.successors.pop() else {
            stack.pop();
            continue;
        };
        if !seen.insert(next.hash()) {
            continue;
        }
        report.states = seen.len();
        if report.states >= bounds.states_max || started.elapsed() >= bounds.time_max {
            report.complete = false;
            break;
        }
        let frame = Frame::new(next, label, scope);
        if frame.successors.is_empty() {
            report.ends += 1;
        }
        stack.push(frame);
    }
    report
}

struct Frame {
    label: String,
    broken: Option<String>,
    successors: Vec<(String, World)>,
}

impl Frame {
    fn new(world: World, label: String, scope: &Scope) -> Self {
        if let Some(broken) = world.broken.clone() {
            return Self {
                label,
                broken: Some(broken),
                successors: Vec::new(),
            };
        }
        let successors = steps::successors(&world, scope);
        let broken = if successors.is_empty() {
            checks::stuck(&world)
        } else {
            None
        };
        Self {
            label,
            broken,
            successors,
        }
    }
}
