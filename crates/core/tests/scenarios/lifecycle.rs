//! Take-over, crashes, release, removal, forks.

use expect_test::expect;
use steadfast_core::command::{CommandBody, ForkOrigin, PackedItems};
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::Seq;
use steadfast_core::input::Input;

use crate::world::{World, new_session};

#[test]
fn a_turn_that_keeps_killing_its_node_is_stopped() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&["safe"]);
    world.skip();
    world.activate();
    world.activate();
    world.tick();
    world.activate();
    world.tick();
    world.activate();
    world.check(expect![[r#"
        9 activated epoch=2 node=n
        10 turn_crashed in_row=1 in_turn=1 turn=3
        11 call_started attempt=2 call=1-7-0
        12 activated epoch=3 node=n
        13 turn_crashed hold_until=7206 in_row=2 in_turn=2 turn=3
        14 call_started attempt=3 call=1-7-0
        15 hold_lifted turn=3
        16 activated epoch=4 node=n
        17 turn_crashed hold_until=44413 in_row=3 in_turn=3 turn=3
        18 call_started attempt=4 call=1-7-0
        19 hold_lifted turn=3
        20 activated epoch=5 node=n
        21 turn_crashed hold_until=74676 in_row=4 in_turn=4 turn=3
        22 call_settled call=1-7-0 output=error_text settlement=cancelled
        23 turn_ended outcome={code:recovery_exhausted,message:the turn's tool calls took its node down 4 times in a row, 4 times in all,type:failed} turn=3
        running: []
    "#]]);
}

#[test]
fn nothing_of_a_turn_runs_while_it_is_held_after_a_crash() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&["safe", "slotless_safe"]);
    world.activate();
    world.skip();
    world.activate();
    world.check(expect![[r#"
        12 activated epoch=3 node=n
        13 turn_crashed hold_until=7206 in_row=2 in_turn=2 turn=3
        14 call_started attempt=3 call=1-7-0
        running: []
    "#]]);
}

#[test]
fn a_crash_while_a_turn_is_held_was_not_its_doing() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&["safe"]);
    world.activate();
    world.activate();
    world.skip();
    for _ in 0..5 {
        world.activate();
    }
    world.tick();
    world.check(expect![[r#"
        15 activated epoch=4 node=n
        16 activated epoch=5 node=n
        17 activated epoch=6 node=n
        18 activated epoch=7 node=n
        19 activated epoch=8 node=n
        20 hold_lifted turn=3
        running: [tool-call 1-7-0/3]
    "#]]);
}

#[test]
fn a_clean_move_never_counts_as_a_crash() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&["safe"]);
    world.skip();
    world.release();
    world.activate();
    world.check(expect![[r#"
        9 released wake=now
        10 activated epoch=2 node=n
        11 call_started attempt=2 call=1-7-0
        running: [tool-call 1-7-0/2]
    "#]]);
}

#[test]
fn a_crash_during_a_model_call_never_counts() {
    let mut world = World::new();
    world.say("m1");
    world.skip();
    world.activate();
    world.check(expect![[r#"
        7 activated epoch=2 node=n
        running: [model-call 2/3/1/1]
    "#]]);
}

#[test]
fn a_release_says_when_to_look_again() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&["ask_soon"]);
    world.skip();
    world.release();
    world.check(expect![[r#"
        9 released wake={at:61000}
        running: []
    "#]]);
}

#[test]
fn a_removed_session_goes_on_counting_when_it_is_made_again() {
    let mut world = World::new();
    world.say("m1");
    world.reply(&["remote"]);
    let call = world.call("remote");
    world.input(&Input::JobQueued { call, attempt: 1 });
    world.skip();
    world.command("d1", CommandBody::Delete);
    world.say("m2");
    world.input(&Input::NoticeDelivered {
        notice: 1,
        withdrawn: false,
    });
    world.command("d1", CommandBody::Delete);
    world.say("m1");
    world.check(expect![[r#"
        10 deletion_started
        11 command_settled command=d1 verdict={type:done}
        12 notice_posted notice={attempt:1,call:1-7-0,tool:remote,type:cancel_job,under_claim:true} number=1
        13 call_settled call=1-7-0 output=error_text settlement=in_doubt
        14 turn_ended outcome={type:cancelled} turn=3
        => done
        => rejected: session_deleting
        15 notice_delivered number=1
        16 session_deleted
        => rejected: session_not_found
        17 session_created
        18 turn_queued message=m1
        19 command_settled command=m1 verdict={turn:18,type:accepted}
        20 turn_started turn=18
        21 step_started step=1 turn=18
        => accepted as turn 18
        running: [model-call 1/18/1/1]
    "#]]);
}

#[test]
fn a_session_is_made_once() {
    let mut world = World::new();
    world.command("k1", CommandBody::Create { new: new_session() });
    world.command("k2", CommandBody::Create { new: new_session() });
    let mut other = new_session();
    other.tags = vec!["x".into()];
    world.command("k3", CommandBody::Create { new: other.clone() });
    world.mail("k4", CommandBody::Create { new: other });
    world.check(expect![[r#"
        2 session_created
        3 command_settled command=k1 verdict={type:done}
        => done
        => done (repeated)
        => rejected: session_exists
        4 command_settled command=k4 verdict={reason:session_exists,type:rejected}
        => rejected: session_exists
        running: []
    "#]]);
}

#[test]
fn a_fork_starts_from_a_copy() {
    let mut world = World::new();
    let blob = BlobRef {
        hash: BlobHash::of(b"[]"),
        size_bytes: 2,
    };
    let packed = PackedItems {
        blob,
        items: 3,
        first_seq: Seq(1),
        last_seq: Seq(9),
        tokens: 40,
    };
    let origin = ForkOrigin {
        from: world.session.key.clone(),
        at_seq: Seq(9),
        transcript: vec![packed],
    };
    world.command(
        "f1",
        CommandBody::Fork {
            new: new_session(),
            origin: origin.clone(),
        },
    );
    world.command(
        "f2",
        CommandBody::Fork {
            new: new_session(),
            origin,
        },
    );
    world.check(expect![[r#"
        2 session_created
        3 transcript_forked origin={at_seq:9,from:{session:s,tenant:t},transcript:[{blob:{hash:d53d18c23212ea7b6300594bb89bce60218f6eff2b9d628b8cc42d3e79bbd5ab,size_bytes:2},first_seq:1,items:3,last_seq:9,tokens:40}]}
        4 command_settled command=f1 verdict={type:done}
        => done
        => rejected: session_exists
        running: []
    "#]]);
    world.check_transcript(expect![[r#"
        packed
    "#]]);
}
