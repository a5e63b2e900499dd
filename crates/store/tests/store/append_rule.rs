//! The rule by which an owner appends, under every fault at once: the same append again until its
//! outcome is known, a conflict settled by the Record that won.

use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::id::SessionKey;
use steadfast_protocol::record::RecordHash;
use steadfast_store::Stores;
use steadfast_store::error::WriteError;
use steadfast_store::fault::Odds;
use steadfast_store::log::{Append, AppendError, ReadFrom, Tail};

use tokio::time::Instant;

use crate::samples::{append, layer, pause, session, stores, texts};

/// What an owner knows of its append in the end.
#[derive(Debug, Clone, PartialEq)]
enum Known {
    Written(Tail),
    /// Another owner was faster.
    Lost,
}

async fn append_by_the_rule(
    stores: &Stores,
    key: &SessionKey,
    expected: Tail,
    append: &Append,
) -> Known {
    loop {
        match stores.log.append(key, expected, append.clone()).await {
            Ok(tail) => return Known::Written(tail),
            Err(AppendError::Write(WriteError::Refused(reason))) => panic!("{reason}"),
            Err(AppendError::Write(
                WriteError::Full(_) | WriteError::Unavailable(_) | WriteError::Unknown(_),
            )) => {}
            // In flight while there is no winner: nobody knows yet.
            Err(AppendError::Conflict) => match winner(stores, key, expected).await {
                Some((tail, hash)) if hash == append.hash => return Known::Written(tail),
                Some(_) => return Known::Lost,
                None => {}
            },
        }
        pause(50).await;
    }
}

/// The Record that stands after `expected`, and its tail.
async fn winner(stores: &Stores, key: &SessionKey, expected: Tail) -> Option<(Tail, RecordHash)> {
    while tail_by_the_rule(stores, key).await != expected {
        let read = stores.log.read(key, ReadFrom::After(expected), 1).await;
        if let Some(first) = read.unwrap_or_default().first() {
            return Some((first.tail, RecordHash::of(&first.bytes)));
        }
        pause(50).await;
    }
    None
}

async fn tail_by_the_rule(stores: &Stores, key: &SessionKey) -> Tail {
    loop {
        if let Ok(told) = stores.log.tail(key).await {
            return told.tail;
        }
        pause(50).await;
    }
}

/// Appends until it wrote `count` Records; gives their texts in order.
async fn owner(stores: Stores, key: SessionKey, name: String, count: u64) -> Vec<String> {
    let (mut written, mut attempt) = (Vec::new(), 0);
    let mut tail = tail_by_the_rule(&stores, &key).await;
    while (written.len() as u64) < count {
        attempt += 1;
        let text = format!("{name} {attempt}");
        let record = append(attempt, &text);
        match append_by_the_rule(&stores, &key, tail, &record).await {
            Known::Written(new) => {
                written.push(format!("{attempt} {text}"));
                tail = new;
            }
            Known::Lost => tail = tail_by_the_rule(&stores, &key).await,
        }
    }
    written
}

/// Three owners race for one session through connections of their own. Gives the log in the end,
/// what each owner knows that it wrote, and a trace of the faults.
fn race(seed: u64) -> (Vec<String>, Vec<Vec<String>>, String) {
    // Ghosts that are late enough to be forgotten, and ghosts that meet their own repetition.
    let odds = Odds {
        ghost_permille: 100,
        ghost_delay_max: Duration::from_millis([20_000, 150][usize::from(seed % 2 == 1)]),
        ..Odds::ROUGH
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let began = Instant::now();
        let inner = stores();
        let key = session("a");
        let mut layers = Vec::new();
        let mut owners = Vec::new();
        for (n, name) in ["x", "y", "z"].into_iter().enumerate() {
            let (layer, plan) = layer(&inner, seed.wrapping_mul(3).wrapping_add(n as u64), odds);
            let run = owner(layer.stores().clone(), key.clone(), name.into(), 12);
            owners.push(tokio::spawn(run));
            layers.push((layer, plan));
        }
        let mut known = Vec::new();
        for owner in owners {
            let patience = Duration::from_secs(3_600);
            let written = tokio::time::timeout(patience, owner).await;
            known.push(written.expect("an owner is stuck").unwrap());
        }
        let mut trace = String::new();
        for (layer, plan) in &layers {
            plan.stop();
            layer.settle().await;
            trace.push_str(&format!("{:?}\n", plan.counts()));
        }
        trace.push_str(&format!("{:?}", began.elapsed()));
        let log = texts(&inner, &key).await;
        (log, known, trace)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_is_what_its_owners_know_that_they_wrote(seed: u64) {
        let (log, known, trace) = race(seed);
        for written in &known {
            let mut rest = log.iter();
            for text in written {
                prop_assert!(rest.any(|found| found == text), "{text} is missing: {log:?} {trace}");
            }
        }
        let (mut in_log, mut known) = (log, known.concat());
        in_log.sort();
        known.sort();
        prop_assert_eq!(in_log, known, "{}", trace);
    }
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in 0..20 {
        assert_eq!(race(seed), race(seed));
    }
}

#[test]
fn rough_odds_meet_every_fault_of_an_append() {
    let traces: String = (0..50).map(|seed| race(seed).2).collect();
    for fault in ["lost_ack", "lost_request", "ghost", "unavailable"] {
        assert!(
            traces.contains(&format!("(Append, \"{fault}\")")),
            "{fault}"
        );
    }
}
