//! Model calls: retries, limits, compaction.

use expect_test::expect;
use steadfast_core::command::CommandBody;
use steadfast_core::content::{Stored, Usage};
use steadfast_core::effect::Effect;
use steadfast_core::input::{FailureClass, Input, Policy};
use steadfast_core::outstanding;

use crate::world::{World, model_reply};

const RETRYABLE: FailureClass = FailureClass::Retryable {
    retry_after_ms: None,
};

#[test]
fn a_model_is_asked_again_after_a_wait_that_grows() {
    let mut world = World::new();
    world.say("m1");
    world.fail_model(RETRYABLE);
    world.tick();
    world.fail_model(FailureClass::Retryable {
        retry_after_ms: Some(40_000),
    });
    world.tick();
    world.check(expect![[r#"
        2 session_created
        3 turn_queued message=m1
        4 command_settled command=m1 verdict={turn:3,type:accepted}
        5 turn_started turn=3
        6 step_started step=1 turn=3
        => accepted as turn 3
        7 model_call_failed attempt=1 code=overloaded message=it is overloaded retry_at=2041 step=1 turn=3
        8 model_call_retried attempt=2 step=1 turn=3
        9 model_call_failed attempt=2 code=overloaded message=it is overloaded retry_at=42041 step=1 turn=3
        10 model_call_retried attempt=3 step=1 turn=3
        running: [model-call 1/3/1/3]
    "#]]);
}

#[test]
fn a_takeover_does_not_restart_the_count_of_attempts() {
    let mut world = World::new();
    world.say("m1");
    for _ in 0..4 {
        world.fail_model(RETRYABLE);
        world.activate();
        world.tick();
    }
    world.skip();
    world.fail_model(RETRYABLE);
    world.check(expect![[r#"
        19 turn_ended outcome={code:model_unavailable,message:5 attempts failed, the last: it is overloaded,type:failed} turn=3
        running: []
    "#]]);
}

#[test]
fn a_failure_that_cannot_be_repaired_ends_the_turn_at_once() {
    let mut world = World::new();
    world.say("m1");
    world.skip();
    world.fail_model(FailureClass::Fatal);
    world.check(expect![[r#"
        7 turn_ended outcome={code:overloaded,message:it is overloaded,type:failed} turn=3
        running: []
    "#]]);
}

#[test]
fn a_reply_to_an_earlier_owner_is_not_a_reply() {
    let mut world = World::new();
    world.say("m1");
    let effect = world.model_call();
    world.activate();
    world.skip();
    let (reply, triage) = model_reply(&["never"]);
    world.input(&Input::ModelReplied {
        effect,
        reply,
        triage,
        unfit: None,
    });
    world.check(expect![[r#"

        running: [model-call 2/3/1/1]
    "#]]);
}

#[test]
fn a_turn_ends_at_its_limits() {
    let mut world = World::with_policy(Policy {
        steps_max: 1,
        ..Policy::default()
    });
    world.say("m1");
    world.reply(&["safe"]);
    world.skip();
    world.done("safe");
    world.policy = Policy {
        turn_tokens_max: Some(10),
        ..Policy::default()
    };
    world.activate();
    world.say("m2");
    world.reply(&["safe"]);
    world.done("safe");
    world.policy = Policy {
        turn_calls_max: Some(1),
        ..Policy::default()
    };
    world.activate();
    world.say("m3");
    world.reply(&["safe", "never"]);
    world.policy = Policy {
        turn_wall_ms_max: Some(60_000),
        ..Policy::default()
    };
    world.activate();
    world.say("m4");
    world.tick();
    world.check(expect![[r#"
        9 call_settled call=1-7-0 output=text settlement=done
        10 turn_ended outcome={code:max_steps,message:the turn took 1 model calls,type:failed} turn=3
        11 activated epoch=2 node=n
        12 turn_queued message=m2
        13 command_settled command=m2 verdict={turn:12,type:accepted}
        14 turn_started turn=12
        15 step_started step=1 turn=12
        => accepted as turn 12
        16 model_replied calls=safe finish=tool_calls step=1 turn=12
        17 call_started attempt=1 call=2-16-0
        18 call_settled call=2-16-0 output=text settlement=done
        19 turn_ended outcome={code:budget,message:the turn spent its 10 tokens,type:failed} turn=12
        20 activated epoch=3 node=n
        21 turn_queued message=m3
        22 command_settled command=m3 verdict={turn:21,type:accepted}
        23 turn_started turn=21
        24 step_started step=1 turn=21
        => accepted as turn 21
        25 model_replied calls=safe+never finish=tool_calls step=1 turn=21
        26 call_settled call=3-25-0 output=error_text settlement=cancelled
        27 call_settled call=3-25-1 output=error_text settlement=cancelled
        28 turn_ended outcome={code:budget,message:the turn may call tools 1 times,type:failed} turn=21
        29 activated epoch=4 node=n
        30 turn_queued message=m4
        31 command_settled command=m4 verdict={turn:30,type:accepted}
        32 turn_started turn=30
        33 step_started step=1 turn=30
        => accepted as turn 30
        34 turn_ended outcome={code:budget,message:the turn took longer than 60000 ms,type:failed} turn=30
        running: []
    "#]]);
}

fn compaction(world: &World) -> Effect {
    let is_compaction = |effect: &&Effect| matches!(effect, Effect::Compaction { .. });
    *outstanding(&world.session)
        .iter()
        .find(is_compaction)
        .expect("a compaction runs")
}

fn summarise(world: &mut World) {
    let effect = compaction(world);
    let summary = Stored::Inline("they talked".to_owned());
    world.input(&Input::CompactionDone {
        effect,
        summary,
        usage: Usage::default(),
    });
}

#[test]
fn a_long_history_is_compacted_before_the_next_model_call() {
    let mut world = World::with_policy(Policy {
        compact_at_tokens: Some(25),
        ..Policy::default()
    });
    world.say("m1");
    world.reply(&["safe", "keyed"]);
    world.skip();
    world.done("safe");
    world.done("keyed");
    world.say("m2");
    summarise(&mut world);
    world.check(expect![[r#"
        10 call_settled call=1-7-0 output=text settlement=done
        11 call_settled call=1-7-1 output=text settlement=done
        12 compaction_started number=1 through=5
        13 turn_queued message=m2
        14 command_settled command=m2 verdict={turn:13,type:accepted}
        => accepted as turn 13
        15 transcript_compacted number=1 summary={inline:they talked} through=5
        16 compaction_started number=2 through=11
        running: [compaction 1/2/1]
    "#]]);
    world.check_transcript(expect![[r#"
        summary
        reply ["safe", "keyed"]
        results
          safe Done: {"type":"text","text":"done"}
          keyed Done: {"type":"text","text":"done"}
    "#]]);
}

#[test]
fn a_history_that_does_not_fit_is_compacted_and_asked_again() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&[]);
    world.say("m2");
    world.skip();
    world.fail_model(FailureClass::ContextOverflow);
    summarise(&mut world);
    world.check(expect![[r#"
        13 model_call_failed attempt=1 code=overloaded message=it is overloaded retry_at=1000 step=1 turn=9
        14 compaction_started number=1 through=7
        15 transcript_compacted number=1 summary={inline:they talked} through=7
        16 model_call_retried attempt=2 step=1 turn=9
        running: [model-call 1/9/1/2]
    "#]]);
}

#[test]
fn a_compaction_that_fails_for_good_does_not_loop() {
    let mut world = World::with_policy(Policy {
        compact_at_tokens: Some(20),
        ..Policy::default()
    });
    world.say("m1");
    world.reply(&["safe"]);
    world.done("safe");
    world.skip();
    let effect = compaction(&world);
    let failure = steadfast_core::input::ModelFailure {
        class: FailureClass::Fatal,
        code: "bad_request".into(),
        message: "no".into(),
    };
    world.input(&Input::ModelFailed { effect, failure });
    world.check(expect![[r#"
        11 compaction_failed attempt=1 code=bad_request message=no number=1
        12 step_started step=2 turn=3
        running: [model-call 1/3/2/1]
    "#]]);
}

#[test]
fn compaction_by_request_runs_without_a_turn() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&[]);
    world.skip();
    world.command("k1", CommandBody::Compact);
    world.command("k2", CommandBody::Compact);
    summarise(&mut world);
    world.check(expect![[r#"
        9 compaction_started number=1 through=5
        10 command_settled command=k1 verdict={type:done}
        => done
        => rejected: nothing_to_compact
        11 transcript_compacted number=1 summary={inline:they talked} through=5
        running: []
    "#]]);
    world.check_transcript(expect![[r#"
        summary
        reply []
    "#]]);
}

#[test]
fn a_paused_reply_is_followed_by_another_step() {
    let mut world = World::new();
    world.say("m1");
    world.skip();
    world.pause();
    world.reply(&[]);
    world.check(expect![[r#"
        7 model_replied calls= finish=paused step=1 turn=3
        8 step_started step=2 turn=3
        9 model_replied calls= finish=stop step=2 turn=3
        10 turn_ended outcome={finish:stop,type:completed} turn=3
        running: []
    "#]]);
}
