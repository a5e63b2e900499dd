//! A node stops, and others go on with its sessions.

use std::future::pending;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::json;
use steadfast_core::event::Event;
use steadfast_core::id::SessionKey;
use steadfast_protocol::mail::{self, Mail};
use steadfast_runtime::{Drained, Options};
use steadfast_store::fault::{FaultLayer, FaultPlan, Odds};
use steadfast_store::mailbox::Lane;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::world::{Node, World, key, script};

const SESSIONS: usize = 40;
const ALL_LET_GO: Drained = Drained {
    left: 0,
    repeated: 0,
    in_doubt: 0,
};

/// A node that hands over four sessions at a time.
async fn start(world: &World) -> Node {
    let options = Options {
        handovers_max: 4,
        ..world.options.clone()
    };
    world.start_on(options, world.stores.clone()).await
}

/// Sessions of a node in the middle of turns.
async fn begin(node: &Node) -> Vec<SessionKey> {
    let keys: Vec<_> = (0..SESSIONS).map(|n| key(&format!("s{n}"))).collect();
    for key in &keys {
        node.send(key, "m1", &script(json!([{ "hang": 600 }])))
            .await;
    }
    keys
}

async fn count(world: &World, keys: &[SessionKey], is: fn(&Event) -> bool) -> usize {
    let mut count = 0;
    for key in keys {
        count += world.count_events(key, is).await;
    }
    count
}

#[tokio::test(start_paused = true)]
async fn sessions_go_as_they_are_taken() {
    let world = World::shared();
    let one = start(&world).await;
    let keys = begin(&one).await;
    let _other = world.start().await;
    let begun = Instant::now();
    assert_eq!(one.handle.shutdown(pending()).await, ALL_LET_GO);
    // Nobody waited for longer than until its session was seen taken.
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    let activated = |event: &Event| matches!(event, Event::Activated { .. });
    assert_eq!(count(&world, &keys, activated).await, SESSIONS * 2);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_nobody_takes_go_all_the_same() {
    let world = World::shared();
    let one = start(&world).await;
    let keys = begin(&one).await;
    let released = |event: &Event| matches!(event, Event::Released { .. });
    let begun = Instant::now();
    let first_go = async {
        sleep(Duration::from_secs(1)).await;
        count(&world, &keys, released).await
    };
    let (drained, gone_first) = tokio::join!(one.handle.shutdown(pending()), first_go);
    assert_eq!((drained, gone_first), (ALL_LET_GO, 4));
    assert_eq!(count(&world, &keys, released).await, SESSIONS);
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn mail_that_a_node_holds_when_it_stops_comes_to_others_at_once() {
    let world = World::shared();
    let plan = Arc::new(FaultPlan::new(SmallRng::seed_from_u64(1), Odds::NONE));
    let layer = FaultLayer::new(&world.stores, Arc::clone(&plan));
    // It takes nothing from the queue itself.
    let options = Options {
        drives: false,
        ..world.options.clone()
    };
    let owner = world.start_on(options, layer.stores().clone()).await;
    let key = key("s");
    owner
        .send(&key, "m1", &script(json!([{ "hang": 600 }])))
        .await;
    let one = world.start().await;
    // Its owner does not answer, so the letter stays with who took it.
    plan.block();
    let letter = mail::encode(&Mail::WakeUp { dead_owner: None }).unwrap();
    let mailbox = &world.stores.mailbox;
    let sent = mailbox.send(&key, Lane::Control, "w", letter.into()).await;
    sleep(Duration::from_secs(2)).await;
    let stop = one.handle.shutdown(pending());
    let next = timeout(Duration::from_millis(100), mailbox.next());
    let (drained, next) = tokio::join!(stop, next);
    assert_eq!(drained, ALL_LET_GO);
    let next = next.unwrap().unwrap();
    assert_eq!((next.session, next.up_to), (key, sent.unwrap()));
}
