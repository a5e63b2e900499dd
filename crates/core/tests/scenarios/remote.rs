//! Remote calls: claims, deadlines, what is known when a job is withdrawn.

use expect_test::expect;
use steadfast_core::command::CommandBody;
use steadfast_core::input::{CheckAnswer, Input, ReplayRule, RuleToday};

use crate::world::{World, done, unknown, with_calls};

fn queued(tool: &str) -> World {
    let mut world = with_calls(&[tool]);
    let call = world.call(tool);
    world.input(&Input::JobQueued { call, attempt: 1 });
    world
}

fn answered(world: &mut World, tool: &str, answer: CheckAnswer) {
    let call = world.call(tool);
    world.input(&Input::CheckAnswered {
        call,
        attempt: 1,
        answer,
    });
}

/// A queued call whose turn was cancelled; its cancel is delivered, also twice, and then something
/// answers all the same.
fn cancelled(tool: &str, withdrawn: bool) -> World {
    let mut world = queued(tool);
    let call = world.call(tool);
    world.command("c1", CommandBody::Cancel { turn: None });
    for _ in 0..2 {
        world.input(&Input::NoticeDelivered {
            notice: 1,
            withdrawn,
        });
    }
    world.input(&Input::CallFinished {
        call,
        attempt: 1,
        outcome: done(),
    });
    world
}

#[test]
fn a_cancelled_job_that_no_worker_had_is_told_as_never_run() {
    // Nothing answers a job that was withdrawn; if something did, it would come too late.
    let world = cancelled("remote", true);
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 notice_posted notice={attempt:1,call:1-7-0,tool:remote,type:cancel_job,under_claim:true} number=1
        11 call_settled call=1-7-0 output=error_text settlement=in_doubt
        12 turn_ended outcome={type:cancelled} turn=3
        13 command_settled command=c1 verdict={type:done}
        => done
        14 notice_delivered number=1
        15 call_resolved call=1-7-0 output=error_text
        running: []
    "#]]);
}

#[test]
fn a_cancelled_job_that_a_worker_had_stays_in_doubt_until_it_answers() {
    let world = cancelled("remote", false);
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 notice_posted notice={attempt:1,call:1-7-0,tool:remote,type:cancel_job,under_claim:true} number=1
        11 call_settled call=1-7-0 output=error_text settlement=in_doubt
        12 turn_ended outcome={type:cancelled} turn=3
        13 command_settled command=c1 verdict={type:done}
        => done
        14 notice_delivered number=1
        15 call_resolved call=1-7-0 output=text
        running: []
    "#]]);
}

#[test]
fn a_cancelled_keyed_job_is_never_told_as_never_run() {
    let world = cancelled("remote_keyed", true);
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 notice_posted notice={attempt:1,call:1-7-0,tool:remote_keyed,type:cancel_job} number=1
        11 call_settled call=1-7-0 output=error_text settlement=cancelled
        12 turn_ended outcome={type:cancelled} turn=3
        13 command_settled command=c1 verdict={type:done}
        => done
        14 notice_delivered number=1
        15 call_resolved call=1-7-0 output=text
        running: []
    "#]]);
}

#[test]
fn a_job_that_no_worker_had_before_its_deadline_did_nothing() {
    let mut world = queued("remote");
    world.tick();
    answered(&mut world, "remote", CheckAnswer::Withdrawn);
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 notice_posted notice={attempt:1,call:1-7-0,tool:remote,type:cancel_job,under_claim:true} number=1
        11 check_requested attempt=1 call=1-7-0
        12 call_settled call=1-7-0 output=error_text settlement=unreachable
        13 step_started step=2 turn=3
        running: [notice 1, model-call 1/3/2/1]
    "#]]);
}

#[test]
fn a_job_that_a_worker_had_is_asked_about_at_its_deadline_and_runs_again_under_another_claim() {
    let mut world = queued("remote_check");
    world.tick();
    answered(&mut world, "remote_check", CheckAnswer::NotDone);
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 notice_posted notice={attempt:1,call:1-7-0,tool:remote_check,type:cancel_job,under_claim:true} number=1
        11 check_requested attempt=1 call=1-7-0
        12 call_started attempt=2 call=1-7-0
        running: [notice 1, job 1-7-0/2]
    "#]]);
}

#[test]
fn a_job_that_was_never_known_to_be_queued_ends_at_its_deadline_too() {
    let mut world = with_calls(&["remote"]);
    world.tick();
    world.check(expect![[r#"
        9 notice_posted notice={attempt:1,call:1-7-0,tool:remote,type:cancel_job,under_claim:true} number=1
        10 check_requested attempt=1 call=1-7-0
        running: [notice 1, check 1-7-0/1]
    "#]]);
}

#[test]
fn a_workers_unknown_outcome_is_asked_about_if_it_can_be() {
    let mut world = queued("remote_check");
    world.finish("remote_check", 1, unknown());
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 check_requested attempt=1 call=1-7-0
        running: [check 1-7-0/1]
    "#]]);
    let mut world = queued("remote");
    world.finish("remote", 1, unknown());
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 call_settled call=1-7-0 output=error_text settlement=in_doubt
        11 step_started step=2 turn=3
        running: [model-call 1/3/2/1]
    "#]]);
}

#[test]
fn a_claim_proves_nothing_of_a_job_that_went_out_under_a_lenient_rule() {
    let mut world = queued("remote_keyed");
    let today = RuleToday {
        rule: ReplayRule::Never,
        has_check: false,
    };
    world.rules_today = vec![("remote_keyed", Some(today))];
    world.activate();
    world.tick();
    answered(&mut world, "remote_keyed", CheckAnswer::Withdrawn);
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 activated epoch=2 node=n
        11 call_rule_tightened call=1-7-0 rule=never
        12 notice_posted notice={attempt:1,call:1-7-0,tool:remote_keyed,type:cancel_job} number=1
        13 check_requested attempt=1 call=1-7-0
        14 call_settled call=1-7-0 output=error_text settlement=in_doubt
        15 step_started step=2 turn=3
        running: [notice 1, model-call 2/3/2/1]
    "#]]);
}

#[test]
fn a_check_of_a_remote_call_outlives_its_owner() {
    let mut world = queued("remote_check");
    world.tick();
    world.activate();
    answered(&mut world, "remote_check", CheckAnswer::Unknown);
    world.check(expect![[r#"
        9 job_queued attempt=1 call=1-7-0
        10 notice_posted notice={attempt:1,call:1-7-0,tool:remote_check,type:cancel_job,under_claim:true} number=1
        11 check_requested attempt=1 call=1-7-0
        12 activated epoch=2 node=n
        13 call_settled call=1-7-0 output=error_text settlement=in_doubt
        14 step_started step=2 turn=3
        running: [notice 1, model-call 2/3/2/1]
    "#]]);
}
