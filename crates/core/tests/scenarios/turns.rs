//! Messages, turns and what happens when one comes while another runs.

use expect_test::expect;
use steadfast_core::command::{CommandBody, MessageOptions, WhenBusy};
use steadfast_core::id::TurnId;
use steadfast_core::input::Policy;

use crate::world::{World, command_id, options};

#[test]
fn a_turn_goes_from_message_over_calls_to_answer() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&["safe", "never"]);
    world.done("never");
    world.done("safe");
    world.reply(&[]);
    world.check(expect![[r#"
        2 session_created
        3 turn_queued message=m1
        4 command_settled command=m1 verdict={turn:3,type:accepted}
        5 turn_started turn=3
        6 step_started step=1 turn=3
        => accepted as turn 3
        7 model_replied calls=safe+never finish=tool_calls step=1 turn=3
        8 call_started attempt=1 call=1-7-0
        9 call_started attempt=1 call=1-7-1
        10 call_settled call=1-7-1 output=text settlement=done
        11 call_settled call=1-7-0 output=text settlement=done
        12 step_started step=2 turn=3
        13 model_replied calls= finish=stop step=2 turn=3
        14 turn_ended outcome={finish:stop,type:completed} turn=3
        running: []
    "#]]);
    world.check_transcript(expect![[r#"
        user m1
        reply ["safe", "never"]
        results
          safe Done: {"type":"text","text":"done"}
          never Done: {"type":"text","text":"done"}
        reply []
    "#]]);
}

#[test]
fn a_queued_message_runs_after_the_open_turn() {
    let mut world = World::new();
    world.say("m1");
    world.say("m2");
    world.reply(&[]);
    world.check(expect![[r#"
        2 session_created
        3 turn_queued message=m1
        4 command_settled command=m1 verdict={turn:3,type:accepted}
        5 turn_started turn=3
        6 step_started step=1 turn=3
        => accepted as turn 3
        7 turn_queued message=m2
        8 command_settled command=m2 verdict={turn:7,type:accepted}
        => accepted as turn 7
        9 model_replied calls= finish=stop step=1 turn=3
        10 turn_ended outcome={finish:stop,type:completed} turn=3
        11 turn_started turn=7
        12 step_started step=1 turn=7
        running: [model-call 1/7/1/1]
    "#]]);
}

#[test]
fn a_steer_joins_before_the_next_model_call() {
    let mut world = World::new();
    world.say("m1");
    world.say_with("m2", options(WhenBusy::Steer));
    world.skip();
    world.reply(&["safe"]);
    world.done("safe");
    world.reply(&[]);
    world.check(expect![[r#"
        9 model_replied calls=safe finish=tool_calls step=1 turn=3
        10 call_started attempt=1 call=1-9-0
        11 call_settled call=1-9-0 output=text settlement=done
        12 message_joined into=3 queued=7
        13 step_started step=2 turn=3
        14 model_replied calls= finish=stop step=2 turn=3
        15 turn_ended outcome={finish:stop,type:completed} turn=3
        running: []
    "#]]);
}

#[test]
fn an_untaken_steer_becomes_the_next_turn_ahead_of_the_queue() {
    let mut world = World::new();
    world.say("m1");
    world.say("m2");
    world.say_with("m3", options(WhenBusy::Steer));
    world.skip();
    world.reply(&[]);
    world.check(expect![[r#"
        11 model_replied calls= finish=stop step=1 turn=3
        12 turn_ended outcome={finish:stop,type:completed} turn=3
        13 turn_started turn=9
        14 step_started step=1 turn=9
        running: [model-call 1/9/1/1]
    "#]]);
}

#[test]
fn a_steer_into_one_turn_is_rejected_when_that_turn_ends_first() {
    let mut world = World::new();
    world.say("m1");
    let running = world.session.turn.as_ref().unwrap().id;
    let into = MessageOptions {
        turn_id: Some(running),
        ..options(WhenBusy::Steer)
    };
    world.skip();
    world.say_with("m2", into.clone());
    world.reply(&[]);
    world.say_with("m3", into);
    world.check(expect![[r#"
        7 turn_queued message=m2
        8 command_settled command=m2 verdict={turn:7,type:accepted}
        => accepted as turn 7
        9 model_replied calls= finish=stop step=1 turn=3
        10 turn_ended outcome={finish:stop,type:completed} turn=3
        11 turn_ended outcome={type:rejected} turn=7
        => rejected: turn_not_running
        running: []
    "#]]);
}

#[test]
fn an_interrupt_ends_the_running_turn_and_runs_next() {
    let mut world = World::new();
    world.say("m1");
    world.say("m2");
    world.reply(&["never"]);
    world.skip();
    world.say_with("m3", options(WhenBusy::Interrupt));
    world.check(expect![[r#"
        11 turn_queued message=m3
        12 command_settled command=m3 verdict={turn:11,type:accepted}
        13 call_settled call=1-9-0 output=error_text settlement=in_doubt
        14 turn_ended outcome={type:cancelled} turn=3
        15 turn_started turn=11
        16 step_started step=1 turn=11
        => accepted as turn 11
        running: [model-call 1/11/1/1]
    "#]]);
    world.check_transcript(expect![[r#"
        user m1
        reply ["never"]
        results
          never InDoubt: {"type":"error_text","text":"No outcome is known: the call was cut off and is not repeated. It may or may not have taken effect. Check before you try it again. (cancelled)"}
        user m3
    "#]]);
}

#[test]
fn a_message_that_will_not_wait_is_refused_and_its_id_stays_free() {
    let mut world = World::new();
    world.say("m1");
    world.skip();
    world.say_with("m2", options(WhenBusy::Reject));
    world.reply(&[]);
    world.say_with("m2", options(WhenBusy::Reject));
    world.check(expect![[r#"
        => rejected: turn_running
        7 model_replied calls= finish=stop step=1 turn=3
        8 turn_ended outcome={finish:stop,type:completed} turn=3
        9 turn_queued message=m2
        10 command_settled command=m2 verdict={turn:9,type:accepted}
        11 turn_started turn=9
        12 step_started step=1 turn=9
        => accepted as turn 9
        running: [model-call 1/9/1/1]
    "#]]);
}

#[test]
fn the_queue_is_bounded() {
    let mut world = World::with_policy(Policy {
        queue_max: 1,
        ..Policy::default()
    });
    world.say("m1");
    world.say("m2");
    world.skip();
    world.say("m3");
    world.say_with("m4", options(WhenBusy::Interrupt));
    world.check(expect![[r#"
        => rejected: queue_full
        9 turn_queued message=m4
        10 command_settled command=m4 verdict={turn:9,type:accepted}
        11 turn_ended outcome={type:cancelled} turn=3
        12 turn_started turn=9
        13 step_started step=1 turn=9
        => accepted as turn 9
        running: [model-call 1/9/1/1]
    "#]]);
}

#[test]
fn a_queued_message_can_be_withdrawn_and_a_running_one_not() {
    let mut world = World::new();
    world.say("m1");
    world.say("m2");
    world.skip();
    world.command(
        "w1",
        CommandBody::Withdraw {
            message: command_id("m2"),
        },
    );
    world.command(
        "w2",
        CommandBody::Withdraw {
            message: command_id("m1"),
        },
    );
    world.command(
        "w3",
        CommandBody::Withdraw {
            message: command_id("m9"),
        },
    );
    world.check(expect![[r#"
        9 turn_ended outcome={type:cancelled} turn=7
        10 command_settled command=w1 verdict={type:done}
        => done
        => rejected: message_not_queued
        => rejected: message_not_found
        running: [model-call 1/3/1/1]
    "#]]);
}

#[test]
fn a_new_message_takes_the_place_of_an_answer_that_people_owe() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&["ask", "client"]);
    world.skip();
    world.say("m2");
    world.reply(&[]);
    world.check(expect![[r#"
        9 turn_queued message=m2
        10 command_settled command=m2 verdict={turn:9,type:accepted}
        11 call_settled call=1-7-0 output=execution_denied settlement=superseded
        12 call_settled call=1-7-1 output=execution_denied settlement=superseded
        13 step_started step=2 turn=3
        => accepted as turn 9
        14 model_replied calls= finish=stop step=2 turn=3
        15 turn_ended outcome={finish:stop,type:completed} turn=3
        16 turn_started turn=9
        17 step_started step=1 turn=9
        running: [model-call 1/9/1/1]
    "#]]);
    world.check_transcript(expect![[r#"
        user m1
        reply ["ask", "client"]
        results
          ask Superseded: {"type":"execution_denied","reason":"the user sent a new message instead of answering"}
          client Superseded: {"type":"execution_denied","reason":"the user sent a new message instead of answering"}
        reply []
        user m2
    "#]]);
}

#[test]
fn a_waiting_turn_is_superseded_at_once_when_a_message_waits_already() {
    let mut world = World::new();
    world.say("m1");
    world.say("m2");
    world.skip();
    world.reply(&["ask"]);
    world.check(expect![[r#"
        9 model_replied calls=ask finish=tool_calls step=1 turn=3
        10 approval_requested approval=approval-1-9-0
        11 call_settled call=1-9-0 output=execution_denied settlement=superseded
        12 step_started step=2 turn=3
        running: [model-call 1/3/2/1]
    "#]]);
}

#[test]
fn cancel_settles_what_is_open_and_starts_the_next_message() {
    let mut world = World::new();
    world.say("m1");
    world.say("m2");
    world.reply(&["safe", "never", "slotless_keyed"]);
    world.skip();
    world.command("c1", CommandBody::Cancel { turn: None });
    world.check(expect![[r#"
        12 call_settled call=1-9-0 output=error_text settlement=cancelled
        13 call_settled call=1-9-1 output=error_text settlement=in_doubt
        14 call_settled call=1-9-2 output=error_text settlement=cancelled
        15 turn_ended outcome={type:cancelled} turn=3
        16 command_settled command=c1 verdict={type:done}
        17 turn_started turn=7
        18 step_started step=1 turn=7
        => done
        running: [model-call 1/7/1/1]
    "#]]);
    world.check_transcript(expect![[r#"
        user m1
        reply ["safe", "never", "slotless_keyed"]
        results
          safe Cancelled: {"type":"error_text","text":"Cancelled. The call may have run; it is safe to repeat."}
          never InDoubt: {"type":"error_text","text":"No outcome is known: the call was cut off and is not repeated. It may or may not have taken effect. Check before you try it again. (cancelled)"}
          slotless_keyed Cancelled: {"type":"error_text","text":"Cancelled. The call did not run."}
        user m2
    "#]]);
}

#[test]
fn a_late_cancel_never_hits_a_later_turn() {
    let mut world = World::new();
    world.say("m1");
    let first: TurnId = world.session.turn.as_ref().unwrap().id;
    world.say("m2");
    world.reply(&[]);
    world.skip();
    world.command("c1", CommandBody::Cancel { turn: Some(first) });
    world.check(expect![[r#"
        => rejected: turn_not_running
        running: [model-call 1/7/1/1]
    "#]]);
}

#[test]
fn an_edit_rewinds_and_tells_what_stands_outside() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&[]);
    world.say("m2");
    world.reply(&["never"]);
    world.done("never");
    world.say("m3");
    world.skip();
    let edit = MessageOptions {
        replaces: Some(command_id("m2")),
        ..MessageOptions::default()
    };
    world.say_with("m2b", edit);
    world.check(expect![[r#"
        19 turn_ended outcome={type:superseded} turn=9
        20 turn_ended outcome={type:superseded} turn=17
        21 transcript_rewound note=The user went back and changed an earlier message. Before that, tools were called whose effects outside stand: never ran. to=11
        22 turn_queued message=m2b
        23 command_settled command=m2b verdict={turn:22,type:accepted}
        24 turn_started turn=22
        25 step_started step=1 turn=22
        => accepted as turn 22
        running: [model-call 1/22/1/1]
    "#]]);
    world.check_transcript(expect![[r#"
        user m1
        reply []
        note The user went back and changed an earlier message. Before that, tools were called whose effects outside stand: never ran.
        user m2b
    "#]]);
}
