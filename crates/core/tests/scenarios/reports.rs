//! What the outside is told of turns.

use expect_test::expect;
use steadfast_core::event::Notice;
use steadfast_core::input::{Input, Policy, ReportKind};
use steadfast_core::limits::REPORTS_KEPT_MAX;

use crate::world::World;

fn told() -> World {
    World::with_policy(Policy {
        reports: vec![ReportKind::Waiting, ReportKind::Ended],
        ..Policy::default()
    })
}

fn reports(world: &World) -> Vec<u64> {
    let outbox = world.session.outbox.iter();
    let reports = outbox.filter(|(_, notice)| matches!(notice, Notice::ReportTurn { .. }));
    reports.map(|(number, _)| *number).collect()
}

#[test]
fn a_wait_and_an_end_are_told_once_each() {
    let mut world = told();
    world.say("m1");
    world.reply(&["ask_safe", "safe"]);
    assert!(reports(&world).is_empty(), "one of the calls runs");
    world.done("safe");
    world.activate();
    assert_eq!(reports(&world), [1]);
    let call = world.call("ask_safe");
    world.decide_approval("a1", call, false);
    world.reply(&[]);
    world.check(expect![[r#"
        2 session_created
        3 turn_queued message=m1
        4 command_settled command=m1 verdict={turn:3,type:accepted}
        5 turn_started turn=3
        6 step_started step=1 turn=3
        => accepted as turn 3
        7 model_replied calls=ask_safe+safe finish=tool_calls step=1 turn=3
        8 approval_requested approval=approval-1-7-0
        9 call_started attempt=1 call=1-7-1
        10 call_settled call=1-7-1 output=text settlement=done
        11 notice_posted notice={at:1000,message:m1,report:{calls:[{call:1-7-0,for:approval,tool:ask_safe}],count:1,type:waiting},turn:3,type:report_turn} number=1
        12 activated epoch=2 node=n
        13 approval_decided approval=approval-1-7-0 approved=false reason=because
        14 command_settled command=a1 verdict={type:done}
        15 call_settled call=1-7-0 output=execution_denied settlement=denied
        16 step_started step=2 turn=3
        => done
        17 model_replied calls= finish=stop step=2 turn=3
        18 turn_ended outcome={finish:stop,type:completed} turn=3
        19 notice_posted notice={at:1000,message:m1,report:{outcome:{finish:stop,type:completed},type:ended},turn:3,type:report_turn} number=2
        running: [notice 1, notice 2]
    "#]]);
}

#[test]
fn the_oldest_report_is_given_up_for_a_new_one() {
    let mut world = told();
    for number in 0..=REPORTS_KEPT_MAX {
        world.say(&format!("m{number}"));
        world.reply(&[]);
    }
    let expected: Vec<u64> = (2..=REPORTS_KEPT_MAX as u64 + 1).collect();
    assert_eq!(reports(&world), expected);
    let detail = "it answers 503".to_owned();
    world.input(&Input::NoticeDropped { notice: 2, detail });
    assert_eq!(reports(&world), expected[1..]);
}
