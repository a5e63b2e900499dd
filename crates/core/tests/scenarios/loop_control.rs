//! What ends a turn, or makes its model answer again.

use expect_test::expect;
use steadfast_core::content::{Finish, ToolOutput};
use steadfast_core::input::{CallOutcome, Policy};

use crate::world::World;

#[test]
fn an_answer_that_does_not_fit_is_asked_for_again_and_the_third_ends_the_turn() {
    let mut world = World::new();
    world.say("m1");
    world.skip();
    world.answer_unfit("at /n: it is no integer", Finish::Stop);
    world.answer_unfit("at /n: it is missing", Finish::Stop);
    world.answer_unfit("it is not JSON", Finish::Stop);
    world.check(expect![[r#"
        7 model_replied calls= finish=stop step=1 turn=3
        8 answer_refused detail=at /n: it is no integer step=1 turn=3
        9 step_started step=2 turn=3
        10 model_replied calls= finish=stop step=2 turn=3
        11 answer_refused detail=at /n: it is missing step=2 turn=3
        12 step_started step=3 turn=3
        13 model_replied calls= finish=stop step=3 turn=3
        14 turn_ended outcome={code:answer_unfit,message:the answer does not fit the schema that was asked for: it is not JSON,type:failed} turn=3
        running: []
    "#]]);
}

#[test]
fn an_answer_that_was_cut_off_is_not_asked_for_again() {
    let mut world = World::new();
    world.say("m1");
    world.skip();
    world.answer_unfit("it is not JSON", Finish::Length);
    world.say("m2");
    world.answer_unfit("it is not JSON", Finish::Refusal);
    world.check(expect![[r#"
        7 model_replied calls= finish=length step=1 turn=3
        8 turn_ended outcome={finish:length,type:completed} turn=3
        9 turn_queued message=m2
        10 command_settled command=m2 verdict={turn:9,type:accepted}
        11 turn_started turn=9
        12 step_started step=1 turn=9
        => accepted as turn 9
        13 model_replied calls= finish=refusal step=1 turn=9
        14 turn_ended outcome={finish:refusal,type:completed} turn=9
        running: []
    "#]]);
}

#[test]
fn the_count_of_answers_that_do_not_fit_outlives_a_takeover() {
    let mut world = World::new();
    world.say("m1");
    world.answer_unfit("it is not JSON", Finish::Stop);
    world.activate();
    world.answer_unfit("it is not JSON", Finish::Stop);
    world.activate();
    world.skip();
    world.answer_unfit("it is not JSON", Finish::Stop);
    world.check(expect![[r#"
        15 model_replied calls= finish=stop step=3 turn=3
        16 turn_ended outcome={code:answer_unfit,message:the answer does not fit the schema that was asked for: it is not JSON,type:failed} turn=3
        running: []
    "#]]);
}

#[test]
fn a_turn_ends_with_the_step_in_which_a_tool_of_its_policy_gave_a_result() {
    let mut world = World::with_policy(Policy {
        stop_after_tools: vec!["safe".into()],
        ..Policy::default()
    });
    world.say("m1");
    world.reply(&["keyed"]);
    world.done("keyed");
    world.reply(&["safe"]);
    let failed = CallOutcome::Done(ToolOutput::error("not now").into());
    world.finish("safe", 1, failed);
    world.skip();
    world.reply(&["safe", "keyed"]);
    world.done("safe");
    world.done("keyed");
    world.check(expect![[r#"
        15 model_replied calls=safe+keyed finish=tool_calls step=3 turn=3
        16 call_started attempt=1 call=1-15-0
        17 call_started attempt=1 call=1-15-1
        18 call_settled call=1-15-0 output=text settlement=done
        19 call_settled call=1-15-1 output=text settlement=done
        20 turn_ended outcome={finish:tool_calls,type:completed} turn=3
        running: []
    "#]]);
}
