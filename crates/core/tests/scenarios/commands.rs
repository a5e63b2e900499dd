//! Answers to commands, and their repetition.

use expect_test::expect;
use steadfast_core::command::{CommandBody, MessageOptions, WhenBusy};
use steadfast_core::limits::{RECEIPTS_KEPT_MIN, RECEIPTS_KEPT_MS};

use crate::world::{World, options, submit};

#[test]
fn a_repeated_command_gets_the_first_answer() {
    let mut world = World::new();
    world.say("m1");
    world.say("m1");
    world.reply(&[]);
    world.mail("m1", submit("m1", MessageOptions::default()));
    world.check(expect![[r#"
        2 session_created
        3 turn_queued message=m1
        4 command_settled command=m1 verdict={turn:3,type:accepted}
        5 turn_started turn=3
        6 step_started step=1 turn=3
        => accepted as turn 3
        => accepted as turn 3 (repeated)
        7 model_replied calls= finish=stop step=1 turn=3
        8 turn_ended outcome={finish:stop,type:completed} turn=3
        => accepted as turn 3 (repeated)
        running: []
    "#]]);
}

#[test]
fn the_same_id_with_other_content_is_a_conflict() {
    let mut world = World::new();
    world.say("m1");
    world.skip();
    world.command("m1", submit("other", MessageOptions::default()));
    world.mail("m1", CommandBody::Delete);
    world.check(expect![[r#"
        => rejected: command_conflict
        => rejected: command_conflict
        running: [model-call 1/3/1/1]
    "#]]);
}

#[test]
fn a_refused_command_leaves_a_trace_only_if_its_client_holds_a_receipt() {
    let mut world = World::new();
    world.say("m1");
    world.skip();
    world.command("m2", submit("m2", options(WhenBusy::Reject)));
    world.mail("m3", submit("m3", options(WhenBusy::Reject)));
    world.reply(&[]);
    world.mail("m3", submit("m3", options(WhenBusy::Reject)));
    world.check(expect![[r#"
        => rejected: turn_running
        7 command_settled command=m3 verdict={reason:turn_running,type:rejected}
        => rejected: turn_running
        8 model_replied calls= finish=stop step=1 turn=3
        9 turn_ended outcome={finish:stop,type:completed} turn=3
        => rejected: turn_running (repeated)
        running: []
    "#]]);
}

#[test]
fn commands_to_a_session_that_is_not_there_find_nothing() {
    let mut world = World::new();
    world.command("c1", CommandBody::Cancel { turn: None });
    world.command("d1", CommandBody::Delete);
    world.command("k1", CommandBody::Compact);
    world.check(expect![[r#"
        => rejected: session_not_found
        => rejected: session_not_found
        => rejected: session_not_found
        running: []
    "#]]);
}

#[test]
fn a_forgotten_id_of_its_time_is_refused() {
    let mut world = World::new();
    let old = "00000000-0bb8-7000-8000-000000000000"; // UUIDv7 of the millisecond 3,000.
    world.now = 3_000;
    world.say(old);
    world.reply(&[]);
    // Ids are forgotten many at once.
    for number in 1..512 {
        world.say(&format!("o{number}"));
        world.reply(&[]);
    }
    world.now += RECEIPTS_KEPT_MS + 1;
    for number in 0..=RECEIPTS_KEPT_MIN {
        world.say(&format!("n{number}"));
        world.reply(&[]);
    }
    assert_eq!(world.session.receipts.len(), RECEIPTS_KEPT_MIN + 1);
    world.now += 1;
    world.skip();
    world.say(old);
    world.check(expect![[r#"
        => rejected: message_too_old
        running: []
    "#]]);
}
