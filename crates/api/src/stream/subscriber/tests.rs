//! Streams as their readers see them.

mod log;

use proptest::prelude::*;
use steadfast_core::event::Event;
use steadfast_runtime::sessions::LoadError;

use super::*;
use log::{Client, Log};

#[tokio::test]
async fn a_follower_gets_the_log_then_what_comes() {
    let log = Log::new();
    log.append_some(2);
    log.append_some(1);
    let mut client = log.subscribe(1, true);
    assert_eq!(
        client.take(4).await,
        [
            "retry: 1000",
            "event 2",
            "event 3",
            r#"event: caught_up data: {"seq":3}"#
        ]
    );
    log.append_some(2);
    assert_eq!(client.take(2).await, ["event 4", "event 5"]);
    log.show(0, "hel");
    log.show(1, "lo");
    let delta = |n: u64, text: &str| {
        format!(
            r#"event: delta data: {{"epoch":1,"turn":1,"step":1,"attempt":1,"n":{n},"delta":{{"type":"text","part":0,"text":"{text}"}}}}"#
        )
    };
    assert_eq!(client.take(2).await, [delta(0, "hel"), delta(1, "lo")]);
    let mut late = log.subscribe(5, true);
    let whole = delta(1, "hello").replace(r#""n":1"#, r#""first_n":0,"n":1"#);
    let caught_up = r#"event: caught_up data: {"seq":5}"#.to_owned();
    assert_eq!(
        late.take(3).await,
        ["retry: 1000".to_owned(), caught_up, whole]
    );
}

#[tokio::test]
async fn without_following_the_stream_ends_at_the_tail() {
    let log = Log::new();
    log.append_some(3);
    let client = log.subscribe(1, false);
    log.append_some(1);
    let expected = [
        "retry: 1000",
        "event 2",
        "event 3",
        r#"event: caught_up data: {"seq":3}"#,
    ];
    assert_eq!(client.rest().await, expected);
}

#[tokio::test]
async fn a_slow_follower_is_left_behind_and_misses_nothing() {
    let log = Log::new();
    let mut slow = log.subscribe(0, true);
    let mut quick = log.subscribe(0, true);
    slow.take(2).await;
    for _ in 0..1_000 {
        log.append_some(2);
        quick.until(log.seq().0).await;
    }
    let frames = slow.take(2_001).await;
    let caught_up = frames
        .iter()
        .filter(|frame| frame.starts_with("event: caught_up"));
    assert_eq!((slow.cursor, caught_up.count()), (2_000, 1));
}

#[tokio::test]
async fn large_records_are_given_and_not_kept_in_flight() {
    let log = Log::new();
    let mut slow = log.subscribe(0, true);
    let mut quick = log.subscribe(0, true);
    slow.take(2).await;
    quick.take(2).await;
    for _ in 0..3 {
        log.append_large();
    }
    assert_eq!(quick.take(3).await, ["event 1", "event 2", "event 3"]);
    for _ in 0..20 {
        log.append_large();
        log.append_some(1);
        quick.until(log.seq().0).await;
    }
    slow.until(43).await;
    log.append(vec![Event::DeletionStarted]);
    log.append_large();
    assert_eq!(slow.rest().await.last().unwrap(), "event 44");
    assert_eq!(quick.rest().await, ["event 44"]);
}

#[tokio::test]
async fn followers_share_one_upstream_and_the_same_bytes() {
    let log = Log::new();
    let mut clients: Vec<Client> = (0..100).map(|_| log.subscribe(0, true)).collect();
    for client in &mut clients {
        client.take(2).await;
    }
    log.append_some(1);
    let mut places = Vec::new();
    for client in &mut clients {
        places.push(client.frames.next().await.unwrap().as_ptr());
    }
    places.dedup();
    assert_eq!((places.len(), log.open_upstreams()), (1, 1));
    assert_eq!((log.hubs.count(), log.streams.count()), (1, 100));
    clients.clear();
    while log.open_upstreams() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((log.hubs.count(), log.streams.count()), (0, 0));
}

#[tokio::test]
async fn an_upstream_that_fails_ends_its_streams_with_an_error() {
    let log = Log::new();
    let client = log.subscribe(0, true);
    let error = LoadError::Quarantined("record 7".into());
    log.failed.send_replace(Some(error));
    let frames = client.rest().await;
    let last = frames.last().unwrap();
    assert!(last.starts_with("event: error data: {"), "{last}");
    assert!(last.contains(r#""code":"session_quarantined""#), "{last}");
    log.failed.send_replace(None);
    let mut again = log.subscribe(0, true);
    log.append_some(1);
    again.until(1).await;
}

#[tokio::test]
async fn a_shutdown_ends_all_streams() {
    let log = Log::new();
    let client = log.subscribe(0, true);
    log.shutdown.cancel();
    let expected = ["retry: 1000", r#"event: caught_up data: {"seq":0}"#];
    assert_eq!(client.rest().await, expected);
}

#[tokio::test]
async fn a_removal_is_the_last_event_of_a_stream() {
    let log = Log::new();
    log.append(vec![Event::SessionDeleted]);
    let mut client = log.subscribe(0, true);
    // One that was before the session was made again ends nothing.
    client.take(3).await;
    log.append(vec![Event::DeletionStarted]);
    log.append_some(1);
    assert_eq!(client.rest().await, ["event 2"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_follower_gets_every_event_once(
        steps in prop::collection::vec((0_u8..5, 1_u64..6, 0_usize..4), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let log = Log::new();
            log.append_some(3);
            let mut clients: Vec<Client> = Vec::new();
            for (step, number, which) in steps {
                match step {
                    0 => log.append_some(number),
                    1 => clients.push(log.subscribe(number.min(log.seq().0), true)),
                    2 if which < clients.len() => {
                        let seq = log.seq().0;
                        clients[which].until(seq).await;
                    }
                    4 => log.append_large(),
                    3 if which < clients.len() => drop(clients.swap_remove(which)),
                    // So many that who does not read is left behind.
                    _ => for _ in 0..100 {
                        log.append_some(1);
                        tokio::task::yield_now().await;
                    },
                }
            }
            let seq = log.seq().0;
            for client in &mut clients {
                client.until(seq).await;
            }
        });
    }
}
