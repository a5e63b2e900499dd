//! Replay rules, approvals, doubt.

use expect_test::expect;
use steadfast_core::command::CommandBody;
use steadfast_core::content::ToolOutput;
use steadfast_core::input::{CallOutcome, CheckAnswer, Input, ReplayRule, RuleToday};

use crate::world::{World, done, unknown, with_calls};

#[test]
fn never_call_is_in_doubt_after_takeover() {
    let mut world = with_calls(&["never"]);
    world.activate();
    world.check(expect![[r#"
        9 activated epoch=2 node=n
        10 turn_crashed in_row=1 in_turn=1 turn=3
        11 call_settled call=1-7-0 output=error_text settlement=in_doubt
        12 step_started step=2 turn=3
        running: [model-call 2/3/2/1]
    "#]]);
    world.check_transcript(expect![[r#"
        user m1
        reply ["never"]
        results
          never InDoubt: {"type":"error_text","text":"No outcome is known: the call was cut off and is not repeated. It may or may not have taken effect. Check before you try it again."}
    "#]]);
}

#[test]
fn safe_and_keyed_calls_run_again_after_takeover() {
    let mut world = with_calls(&["safe", "keyed"]);
    world.activate();
    world.check(expect![[r#"
        10 activated epoch=2 node=n
        11 turn_crashed in_row=1 in_turn=1 turn=3
        12 call_started attempt=2 call=1-7-0
        13 call_started attempt=2 call=1-7-1
        running: [tool-call 1-7-0/2, tool-call 1-7-1/2]
    "#]]);
}

#[test]
fn a_never_call_that_waited_for_its_slot_simply_runs_after_takeover() {
    let mut world = with_calls(&["slotless_never"]);
    world.activate();
    let call = world.call("slotless_never");
    world.input(&Input::SlotReady { call });
    world.check(expect![[r#"
        8 activated epoch=2 node=n
        9 call_started attempt=1 call=1-7-0
        running: [tool-call 1-7-0/1]
    "#]]);
}

#[test]
fn a_check_that_says_done_settles_with_its_result() {
    let mut world = with_calls(&["check"]);
    world.activate();
    let call = world.call("check");
    let answer = CheckAnswer::Done(ToolOutput::text("it was").into());
    world.input(&Input::CheckAnswered {
        call,
        attempt: 1,
        answer,
    });
    world.check(expect![[r#"
        9 activated epoch=2 node=n
        10 turn_crashed in_row=1 in_turn=1 turn=3
        11 check_requested attempt=1 call=1-7-0
        12 call_settled call=1-7-0 output=text settlement=done
        13 step_started step=2 turn=3
        running: [model-call 2/3/2/1]
    "#]]);
}

#[test]
fn a_check_that_says_not_done_runs_the_call() {
    let mut world = with_calls(&["check"]);
    world.activate();
    let call = world.call("check");
    world.input(&Input::CheckAnswered {
        call,
        attempt: 1,
        answer: CheckAnswer::NotDone,
    });
    world.check(expect![[r#"
        9 activated epoch=2 node=n
        10 turn_crashed in_row=1 in_turn=1 turn=3
        11 check_requested attempt=1 call=1-7-0
        12 call_started attempt=2 call=1-7-0
        running: [tool-call 1-7-0/2]
    "#]]);
}

#[test]
fn an_attempt_that_was_said_not_to_happen_gives_no_answer() {
    let mut world = with_calls(&["check"]);
    world.finish("check", 1, unknown());
    let call = world.call("check");
    world.input(&Input::CheckAnswered {
        call,
        attempt: 1,
        answer: CheckAnswer::NotDone,
    });
    // What the first attempt says now can only be that the tool refused it.
    world.finish("check", 1, done());
    world.finish("check", 2, done());
    world.check(expect![[r#"
        9 check_requested attempt=1 call=1-7-0
        10 call_started attempt=2 call=1-7-0
        11 call_settled call=1-7-0 output=text settlement=done
        12 step_started step=2 turn=3
        running: [model-call 1/3/2/1]
    "#]]);
}

#[test]
fn a_check_that_cannot_tell_leaves_the_call_in_doubt() {
    let mut world = with_calls(&["check"]);
    world.finish("check", 1, unknown());
    let call = world.call("check");
    world.input(&Input::CheckAnswered {
        call,
        attempt: 1,
        answer: CheckAnswer::Unknown,
    });
    world.check(expect![[r#"
        9 check_requested attempt=1 call=1-7-0
        10 call_settled call=1-7-0 output=error_text settlement=in_doubt
        11 step_started step=2 turn=3
        running: [model-call 1/3/2/1]
    "#]]);
}

#[test]
fn an_unknown_outcome_of_a_never_call_is_doubt_and_not_failure() {
    let mut world = with_calls(&["never"]);
    world.finish("never", 1, unknown());
    world.check_transcript(expect![[r#"
        user m1
        reply ["never"]
        results
          never InDoubt: {"type":"error_text","text":"No outcome is known: the call was cut off and is not repeated. It may or may not have taken effect. Check before you try it again."}
    "#]]);
}

#[test]
fn a_late_answer_resolves_once_and_reaches_the_model_as_a_note() {
    let mut world = with_calls(&["never"]);
    let call = world.call("never");
    world.finish("never", 1, unknown());
    world.input(&Input::CallFinished {
        call,
        attempt: 1,
        outcome: done(),
    });
    world.input(&Input::CallFinished {
        call,
        attempt: 1,
        outcome: done(),
    });
    world.reply(&["safe"]);
    world.done("safe");
    world.check(expect![[r#"
        9 call_settled call=1-7-0 output=error_text settlement=in_doubt
        10 step_started step=2 turn=3
        11 call_resolved call=1-7-0 output=text
        12 model_replied calls=safe finish=tool_calls step=2 turn=3
        13 call_started attempt=1 call=1-12-0
        14 call_settled call=1-12-0 output=text settlement=done
        15 step_started step=3 turn=3
        running: [model-call 1/3/3/1]
    "#]]);
    world.check_transcript(expect![[r#"
        user m1
        reply ["never"]
        results
          never InDoubt: {"type":"error_text","text":"No outcome is known: the call was cut off and is not repeated. It may or may not have taken effect. Check before you try it again."}
        reply ["safe"]
        results
          safe Done: {"type":"text","text":"done"}
        note The earlier call of never (1-7-0), whose outcome was not known, has been answered after all: done
    "#]]);
}

#[test]
fn repeatable_calls_are_retried_within_their_attempts() {
    let mut world = with_calls(&["keyed"]);
    world.finish("keyed", 1, unknown());
    world.tick();
    world.finish(
        "keyed",
        2,
        CallOutcome::Retry {
            detail: "refused".into(),
            retry_after_ms: Some(9_000),
        },
    );
    world.tick();
    world.finish("keyed", 3, unknown());
    world.check(expect![[r#"
        9 call_retry_scheduled attempt=1 call=1-7-0 detail=timeout may_have_acted=true retry_at=1606
        10 call_started attempt=2 call=1-7-0
        11 call_retry_scheduled attempt=2 call=1-7-0 detail=refused may_have_acted=false retry_at=10606
        12 call_started attempt=3 call=1-7-0
        13 call_settled call=1-7-0 output=error_text settlement=unknown
        14 step_started step=2 turn=3
        running: [model-call 1/3/2/1]
    "#]]);
    world.check_transcript(expect![[r#"
        user m1
        reply ["keyed"]
        results
          keyed Unknown: {"type":"error_text","text":"No outcome is known: every attempt was cut off. The call may have taken effect. (timeout)"}
    "#]]);
}

#[test]
fn a_call_that_may_have_acted_is_never_told_as_unreached() {
    let mut world = with_calls(&["keyed"]);
    world.finish("keyed", 1, unknown());
    let busy = |world: &mut World, attempt| {
        world.tick();
        let outcome = CallOutcome::Retry {
            detail: "busy".into(),
            retry_after_ms: None,
        };
        world.finish("keyed", attempt, outcome);
    };
    busy(&mut world, 2);
    busy(&mut world, 3);
    world.check_transcript(expect![[r#"
        user m1
        reply ["keyed"]
        results
          keyed Unknown: {"type":"error_text","text":"No outcome is known: every attempt was cut off. The call may have taken effect. (busy)"}
    "#]]);
}

#[test]
fn a_never_call_that_certainly_did_nothing_is_told_so() {
    let mut world = with_calls(&["never"]);
    let outcome = CallOutcome::Retry {
        detail: "refused".into(),
        retry_after_ms: None,
    };
    world.finish("never", 1, outcome);
    world.check_transcript(expect![[r#"
        user m1
        reply ["never"]
        results
          never Unreachable: {"type":"error_text","text":"The tool could not be reached. It did nothing. (refused)"}
    "#]]);
}

#[test]
fn an_exclusive_call_runs_alone() {
    let mut world = with_calls(&["safe", "exclusive", "keyed"]);
    world.done("safe");
    world.done("keyed");
    world.done("exclusive");
    world.check(expect![[r#"
        10 call_settled call=1-7-0 output=text settlement=done
        11 call_settled call=1-7-2 output=text settlement=done
        12 call_started attempt=1 call=1-7-1
        13 call_settled call=1-7-1 output=text settlement=done
        14 step_started step=2 turn=3
        running: [model-call 1/3/2/1]
    "#]]);
}

#[test]
fn a_refused_call_does_not_run() {
    let mut world = with_calls(&["bad", "safe"]);
    world.done("safe");
    world.check_transcript(expect![[r#"
        user m1
        reply ["bad", "safe"]
        results
          bad Refused: {"type":"error_text","text":"no such tool"}
          safe Done: {"type":"text","text":"done"}
    "#]]);
}

#[test]
fn a_call_whose_tool_is_gone_ends_as_such_unless_it_started() {
    let mut world = with_calls(&["never", "slotless_safe"]);
    world.rules_today = vec![("never", None), ("slotless_safe", None)];
    world.activate();
    world.check(expect![[r#"
        9 activated epoch=2 node=n
        10 turn_crashed in_row=1 in_turn=1 turn=3
        11 call_settled call=1-7-0 output=error_text settlement=in_doubt
        12 call_settled call=1-7-1 output=error_text settlement=tool_gone
        13 step_started step=2 turn=3
        running: [model-call 2/3/2/1]
    "#]]);
}

#[test]
fn a_stricter_rule_of_today_holds_for_a_call_that_is_open() {
    let mut world = with_calls(&["safe"]);
    let today = RuleToday {
        rule: ReplayRule::Never,
        has_check: false,
    };
    world.rules_today = vec![("safe", Some(today))];
    world.activate();
    world.check(expect![[r#"
        9 activated epoch=2 node=n
        10 turn_crashed in_row=1 in_turn=1 turn=3
        11 call_rule_tightened call=1-7-0 rule=never
        12 call_settled call=1-7-0 output=error_text settlement=in_doubt
        13 step_started step=2 turn=3
        running: [model-call 2/3/2/1]
    "#]]);
}

#[test]
fn a_remote_call_outlives_its_owner_and_a_cancel_reaches_its_job() {
    let mut world = with_calls(&["remote"]);
    let call = world.call("remote");
    world.input(&Input::JobQueued { call, attempt: 1 });
    world.activate();
    world.command("c1", CommandBody::Cancel { turn: None });
    world.input(&Input::NoticeDelivered {
        notice: 1,
        withdrawn: false,
    });
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 activated epoch=2 node=n
        11 notice_posted notice={attempt:1,call:1-7-0,tool:remote,type:cancel_job,under_claim:true} number=1
        12 call_settled call=1-7-0 output=error_text settlement=in_doubt
        13 turn_ended outcome={type:cancelled} turn=3
        14 command_settled command=c1 verdict={type:done}
        => done
        15 notice_delivered number=1
        running: []
    "#]]);
}

#[test]
fn a_remote_call_without_an_answer_ends_at_its_deadline() {
    let mut world = with_calls(&["remote"]);
    let call = world.call("remote");
    world.input(&Input::JobQueued { call, attempt: 1 });
    world.tick();
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 notice_posted notice={attempt:1,call:1-7-0,tool:remote,type:cancel_job,under_claim:true} number=1
        11 check_requested attempt=1 call=1-7-0
        running: [notice 1, check 1-7-0/1]
    "#]]);
}
