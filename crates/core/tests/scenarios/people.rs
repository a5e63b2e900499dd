//! Calls that wait for people: approvals, client-side results, doubts.

use expect_test::expect;
use steadfast_core::command::{CallAnswer, CommandBody, Settler};
use steadfast_core::content::ToolOutput;
use steadfast_core::id::ApprovalId;
use steadfast_core::input::CallOutcome;

use crate::world::{done, unknown, with_calls};

#[test]
fn a_call_in_doubt_can_wait_for_an_operator() {
    let mut world = with_calls(&["wait"]);
    let call = world.call("wait");
    world.activate();
    world.say("m2");
    world.settle("r1", call, Settler::Client);
    world.settle("r2", call, Settler::Operator);
    world.settle("r3", call, Settler::Operator);
    world.check(expect![[r#"
        9 activated epoch=2 node=n
        10 turn_crashed in_row=1 in_turn=1 turn=3
        11 call_doubted call=1-7-0
        12 turn_queued message=m2
        13 command_settled command=m2 verdict={turn:12,type:accepted}
        => accepted as turn 12
        => rejected: call_not_waiting
        14 call_settled call=1-7-0 output=text settlement=done
        15 command_settled command=r2 verdict={type:done}
        16 step_started step=2 turn=3
        => done
        => rejected: call_not_waiting
        running: [model-call 2/3/2/1]
    "#]]);
}

#[test]
fn an_operator_has_a_call_in_doubt_run_once_more() {
    let mut world = with_calls(&["wait"]);
    let call = world.call("wait");
    world.finish("wait", 1, unknown());
    world.command("r1", CommandBody::RetryCall { call });
    // It did nothing this time; of the first time nobody knows anything still.
    let not_reached = CallOutcome::Retry {
        detail: "no connection".into(),
        retry_after_ms: None,
    };
    world.finish("wait", 2, not_reached);
    world.command("r2", CommandBody::RetryCall { call });
    world.activate();
    world.command("r3", CommandBody::RetryCall { call });
    world.command("r3", CommandBody::RetryCall { call });
    // The answer to an earlier attempt is the call's answer.
    world.finish("wait", 3, done());
    world.command("r4", CommandBody::RetryCall { call });
    world.check(expect![[r#"
        9 call_doubted call=1-7-0
        10 call_started attempt=2 call=1-7-0
        11 command_settled command=r1 verdict={type:done}
        => done
        12 call_doubted call=1-7-0
        13 call_started attempt=3 call=1-7-0
        14 command_settled command=r2 verdict={type:done}
        => done
        15 activated epoch=2 node=n
        16 turn_crashed in_row=1 in_turn=1 turn=3
        17 call_doubted call=1-7-0
        18 call_started attempt=4 call=1-7-0
        19 command_settled command=r3 verdict={type:done}
        => done
        => done (repeated)
        20 call_settled call=1-7-0 output=text settlement=done
        21 step_started step=2 turn=3
        => rejected: call_not_waiting
        running: [model-call 2/3/2/1]
    "#]]);
}

#[test]
fn a_call_in_doubt_is_not_run_again_beside_an_exclusive_one() {
    let mut world = with_calls(&["wait", "exclusive"]);
    let call = world.call("wait");
    world.finish("wait", 1, unknown());
    world.command("r1", CommandBody::RetryCall { call });
    world.done("exclusive");
    world.command("r2", CommandBody::RetryCall { call });
    world.check(expect![[r#"
        9 call_doubted call=1-7-0
        10 call_started attempt=1 call=1-7-1
        => rejected: call_blocked
        11 call_settled call=1-7-1 output=text settlement=done
        12 call_started attempt=2 call=1-7-0
        13 command_settled command=r2 verdict={type:done}
        => done
        running: [tool-call 1-7-0/2]
    "#]]);
}

#[test]
fn a_cancelled_call_in_doubt_can_be_resolved_by_an_operator() {
    let mut world = with_calls(&["wait"]);
    let call = world.call("wait");
    world.command("c1", CommandBody::Cancel { turn: None });
    world.settle("r1", call, Settler::Operator);
    world.check(expect![[r#"
        9 call_settled call=1-7-0 output=error_text settlement=in_doubt
        10 turn_ended outcome={type:cancelled} turn=3
        11 command_settled command=c1 verdict={type:done}
        => done
        12 call_resolved call=1-7-0 output=text
        13 command_settled command=r1 verdict={type:done}
        => done
        running: []
    "#]]);
}

#[test]
fn an_approval_is_decided_once() {
    let mut world = with_calls(&["ask"]);
    let call = world.call("ask");
    world.decide_approval("a1", call, true);
    world.decide_approval("a1", call, true);
    world.decide_approval("a2", call, true);
    world.decide_approval("a3", call, false);
    world.done("ask");
    world.decide_approval("a4", call, true);
    world.check(expect![[r#"
        9 approval_decided approval=approval-1-7-0 approved=true reason=because
        10 command_settled command=a1 verdict={type:done}
        11 call_started attempt=1 call=1-7-0
        => done
        => done (repeated)
        12 command_settled command=a2 verdict={type:done}
        => done
        => rejected: approval_decided
        13 call_settled call=1-7-0 output=text settlement=done
        14 step_started step=2 turn=3
        15 command_settled command=a4 verdict={type:done}
        => done
        running: [model-call 1/3/2/1]
    "#]]);
}

#[test]
fn a_denied_call_does_not_run_and_its_reason_reaches_the_model() {
    let mut world = with_calls(&["ask", "safe"]);
    let call = world.call("ask");
    world.decide_approval("a1", call, false);
    world.done("safe");
    world.check_transcript(expect![[r#"
        user m1
        reply ["ask", "safe"]
        results
          ask Denied: {"type":"execution_denied","reason":"the user denied this call: because"}
          safe Done: {"type":"text","text":"done"}
    "#]]);
}

#[test]
fn several_answers_are_one_decision_and_a_late_one_spoils_none() {
    let mut world = with_calls(&["ask_a", "ask_b", "client"]);
    let (a, b, client) = (
        world.call("ask_a"),
        world.call("ask_b"),
        world.call("client"),
    );
    world.decide_approval("a1", a, true);
    let approval = |call, approved| CallAnswer::Approval {
        approval: ApprovalId(call),
        approved,
        reason: Some("because".into()),
        triage: None,
    };
    let result = CallAnswer::Result {
        call: client,
        output: ToolOutput::text("the client's").into(),
    };
    let answers = vec![approval(a, false), approval(b, false), result];
    world.command(
        "m2",
        CommandBody::AnswerCalls {
            answers: answers.clone(),
        },
    );
    world.command(
        "m2",
        CommandBody::AnswerCalls {
            answers: answers.clone(),
        },
    );
    world.command(
        "m3",
        CommandBody::AnswerCalls {
            answers: answers[..1].to_vec(),
        },
    );
    world.check(expect![[r#"
        10 approval_decided approval=approval-1-7-0 approved=true reason=because
        11 command_settled command=a1 verdict={type:done}
        12 call_started attempt=1 call=1-7-0
        => done
        13 approval_decided approval=approval-1-7-1 approved=false reason=because
        14 call_settled call=1-7-2 output=text settlement=done
        15 command_settled command=m2 verdict={type:done}
        16 call_settled call=1-7-1 output=execution_denied settlement=denied
        => done
        => done (repeated)
        => rejected: approval_decided
        running: [tool-call 1-7-0/1]
    "#]]);
}

#[test]
fn an_approval_expires_as_denied() {
    let mut world = with_calls(&["ask_soon"]);
    let call = world.call("ask_soon");
    world.tick();
    world.decide_approval("a1", call, true);
    world.check(expect![[r#"
        9 call_settled call=1-7-0 output=execution_denied settlement=expired
        10 step_started step=2 turn=3
        => rejected: approval_decided
        running: [model-call 1/3/2/1]
    "#]]);
}

#[test]
fn a_client_call_is_settled_by_its_client_once() {
    let mut world = with_calls(&["client"]);
    let call = world.call("client");
    world.settle("r1", call, Settler::Client);
    world.settle("r2", call, Settler::Client);
    world.check(expect![[r#"
        8 call_settled call=1-7-0 output=text settlement=done
        9 command_settled command=r1 verdict={type:done}
        10 step_started step=2 turn=3
        => done
        => rejected: call_not_waiting
        running: [model-call 1/3/2/1]
    "#]]);
}
