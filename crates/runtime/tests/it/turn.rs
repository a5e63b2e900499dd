//! Whole turns.

use serde_json::json;
use steadfast_core::event::Verdict;
use steadfast_core::id::{Seq, TurnId};
use steadfast_core::receipt::End;
use steadfast_runtime::sessions::Admission;

use crate::world::{World, calls, key, message, script};

#[tokio::test(start_paused = true)]
async fn a_message_becomes_a_turn_in_two_records() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    let admission = node
        .send(&key, "m1", &script(json!([{ "text": "hello" }])))
        .await;
    let Admission::Decided { verdict, first, .. } = admission else {
        panic!("{admission:?}")
    };
    assert_eq!(
        (verdict, first),
        (
            Verdict::Accepted {
                turn: TurnId(Seq(3))
            },
            true
        )
    );
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    insta::assert_snapshot!(world.story(&key).await, @"activated session_created turn_queued command_settled turn_started step_started | model_replied turn_ended");
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_step_run_and_the_model_goes_on() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["look", "charge"])).await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    assert_eq!(world.ledger.lines(), ["look", "charge"]);
    insta::assert_snapshot!(world.story(&key).await, @"activated session_created turn_queued command_settled turn_started step_started | model_replied call_started call_started | call_settled | call_settled step_started | model_replied turn_ended");
}

#[tokio::test(start_paused = true)]
async fn the_same_message_again_runs_nothing() {
    let world = World::new();
    let node = world.start().await;
    let key = key("s");
    node.send(&key, "m1", &calls(&["charge"])).await;
    assert_eq!(node.end_of(&key, "m1").await, End::Completed);
    let appends = world.log.appends();
    let again = node
        .sessions
        .admit(&key, message("m1", &calls(&["charge"])))
        .await;
    let Ok(Admission::Decided { verdict, first, .. }) = again else {
        panic!("{again:?}")
    };
    assert_eq!(
        (verdict, first),
        (
            Verdict::Accepted {
                turn: TurnId(Seq(3))
            },
            false
        )
    );
    assert_eq!(world.ledger.lines(), ["charge"]);
    assert_eq!(world.log.appends(), appends);
}

/// Several sessions at once with calls, failures and an idle end.
async fn everything() -> Vec<String> {
    let world = World::new();
    let node = world.start().await;
    let texts = [
        calls(&["look", "charge", "look"]),
        script(json!([{ "status": 529 }, { "text": "done" }])),
        script(json!([{ "text": "slow", "chunks": 4, "delay": 0.5 }])),
        calls(&["nothing", "look"]),
    ];
    for (n, text) in texts.iter().cycle().take(20).enumerate() {
        node.send(&key(&format!("s{}", n % 7)), &format!("m{n}"), text)
            .await;
    }
    node.until_gone().await;
    let mut told = world.ledger.lines();
    for n in 0..7 {
        told.extend(
            world
                .records(&key(&format!("s{n}")))
                .await
                .iter()
                .map(|record| format!("{record:?}")),
        );
    }
    told
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_the_same_do_the_same() {
    assert_eq!(everything().await, everything().await);
}
