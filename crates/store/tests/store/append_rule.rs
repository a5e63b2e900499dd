//! The rule by which an owner appends, under every fault at once: the same append again until its
//! outcome is known, a conflict settled by the tail.

use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::id::SessionKey;
use steadfast_store::Stores;
use steadfast_store::error::WriteError;
use steadfast_store::fault::Odds;
use steadfast_store::log::{Append, AppendError, Tail};

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
            Err(AppendError::Write(WriteError::Unavailable(_) | WriteError::Unknown(_))) => {}
            Err(AppendError::Conflict) => {
                let told = tail_by_the_rule(stores, key).await;
                match told.1 {
                    Some(hash) if hash == append.hash => return Known::Written(told.0),
                    // In flight: nobody knows yet.
                    _ if told.0 == expected => {}
                    _ => return Known::Lost,
                }
            }
        }
        pause(50).await;
    }
}

async fn tail_by_the_rule(
    stores: &Stores,
    key: &SessionKey,
) -> (Tail, Option<steadfast_protocol::record::RecordHash>) {
    loop {
        if let Ok(told) = stores.log.tail(key).await {
            return (told.tail, told.last.map(|last| last.hash));
        }
        pause(50).await;
    }
}

/// Appends until it wrote `count` Records; gives their texts in order.
async fn owner(stores: Stores, key: SessionKey, name: String, count: u64) -> Vec<String> {
    let (mut written, mut attempt) = (Vec::new(), 0);
    let (mut tail, _) = tail_by_the_rule(&stores, &key).await;
    while (written.len() as u64) < count {
        attempt += 1;
        let text = format!("{name} {attempt}");
        let record = append(attempt, &text);
        match append_by_the_rule(&stores, &key, tail, &record).await {
            Known::Written(new) => {
                written.push(format!("{attempt} {text}"));
                tail = new;
            }
            Known::Lost => (tail, _) = tail_by_the_rule(&stores, &key).await,
        }
    }
    written
}

/// Three owners race for one session through connections of their own. Gives the log in the end,
/// what each owner knows that it wrote, and a trace of the faults.
fn race(seed: u64) -> (Vec<String>, Vec<Vec<String>>, String) {
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
            let (layer, plan) = layer(&inner, seed.wrapping_mul(3) + n as u64, Odds::ROUGH);
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
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_an_owner_knows_is_in_the_log_once_and_in_order(seed: u64) {
        let (log, known, trace) = race(seed);
        let mut unique = log.clone();
        unique.sort();
        unique.dedup();
        prop_assert_eq!(unique.len(), log.len(), "a record stands twice: {:?}", &log);
        for written in known {
            let mut rest = log.iter();
            for text in &written {
                prop_assert!(rest.any(|found| found == text), "{text} is missing: {log:?} {trace}");
            }
        }
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
