//! Calls that another agent answers, and turns that another session asked for.

use expect_test::expect;
use steadfast_core::child::{ParentCall, TurnShare};
use steadfast_core::command::{CommandBody, MessageOptions};
use steadfast_core::id::SessionId;
use steadfast_core::input::{FailureClass, Input};
use steadfast_core::why;

use crate::world::{World, done, with_calls};

fn asked() -> MessageOptions {
    MessageOptions {
        parent: Some(Box::new(ParentCall {
            session: SessionId::new("above").unwrap(),
            call: "1-7-0".parse().unwrap(),
            depth: 1,
        })),
        share: Some(Box::new(TurnShare {
            steps_max: 1,
            tokens_max: None,
        })),
        ..MessageOptions::default()
    }
}

#[test]
fn a_call_waits_for_its_agent_over_a_crash_and_takes_one_answer() {
    let mut world = with_calls(&["agent_remote_keyed"]);
    let call = world.call("agent_remote_keyed");
    world.activate();
    world.input(&Input::JobQueued { call, attempt: 1 });
    world.activate();
    assert_eq!(
        why(&world.session).summary,
        "agent other in session s_1-7-0"
    );
    world.skip();
    world.done("agent_remote_keyed");
    world.input(&Input::CallFinished {
        call,
        attempt: 1,
        outcome: done(),
    });
    world.check(expect![[r#"
        12 call_settled call=1-7-0 output=text settlement=done
        13 step_started step=2 turn=3
        running: [model-call 3/3/2/1]
    "#]]);
}

#[test]
fn a_cancelled_call_cancels_its_agents_turn_surely() {
    let mut world = with_calls(&["agent_remote_keyed"]);
    world.skip();
    world.command("c1", CommandBody::Cancel { turn: None });
    world.activate();
    world.check(expect![[r#"
        9 notice_posted notice={agent:other,attempt:1,call:1-7-0,tool:agent_remote_keyed,type:cancel_job} number=1
        10 call_settled call=1-7-0 output=error_text settlement=cancelled
        11 turn_ended outcome={type:cancelled} turn=3
        12 command_settled command=c1 verdict={type:done}
        => done
        13 activated epoch=2 node=n
        running: [notice 1]
    "#]]);
}

#[test]
fn the_end_of_a_turn_answers_the_call_that_asked_for_it() {
    let mut world = World::new();
    world.say_with("m1", asked());
    world.skip();
    world.reply(&["safe"]);
    world.done("safe");
    world.say("m2");
    world.reply(&[]);
    world.check(expect![[r#"
        7 model_replied calls=safe finish=tool_calls step=1 turn=3
        8 call_started attempt=1 call=1-7-0
        9 call_settled call=1-7-0 output=text settlement=done
        10 turn_ended outcome={code:max_steps,message:the turn took 1 model calls,type:failed} turn=3
        11 notice_posted notice={last_item:9,outcome:{code:max_steps,message:the turn took 1 model calls,type:failed},parent:{call:1-7-0,depth:1,session:above},turn:3,type:answer_call} number=1
        12 turn_queued message=m2
        13 command_settled command=m2 verdict={turn:12,type:accepted}
        14 turn_started turn=12
        15 step_started step=1 turn=12
        => accepted as turn 12
        16 model_replied calls= finish=stop step=1 turn=12
        17 turn_ended outcome={finish:stop,type:completed} turn=12
        running: [notice 1]
    "#]]);
}

#[test]
fn a_turn_that_fails_or_is_removed_answers_too() {
    let mut world = World::new();
    world.say_with("m1", asked());
    world.say_with("m2", asked());
    world.skip();
    world.fail_model(FailureClass::Fatal);
    world.command("d1", CommandBody::Delete);
    for notice in 1..=2 {
        let withdrawn = false;
        world.input(&Input::NoticeDelivered { notice, withdrawn });
    }
    world.check(expect![[r#"
        9 turn_ended outcome={code:overloaded,message:it is overloaded,type:failed} turn=3
        10 turn_started turn=7
        11 step_started step=1 turn=7
        12 notice_posted notice={outcome:{code:overloaded,message:it is overloaded,type:failed},parent:{call:1-7-0,depth:1,session:above},turn:3,type:answer_call} number=1
        13 deletion_started
        14 command_settled command=d1 verdict={type:done}
        15 turn_ended outcome={type:cancelled} turn=7
        16 notice_posted notice={outcome:{type:cancelled},parent:{call:1-7-0,depth:1,session:above},turn:7,type:answer_call} number=2
        => done
        17 notice_delivered number=1
        18 notice_delivered number=2
        19 session_deleted
        running: []
    "#]]);
}
