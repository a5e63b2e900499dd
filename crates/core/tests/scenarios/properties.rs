//! Any inputs in any order: decisions stay pure, folds total, deadlines make progress.

use proptest::prelude::*;
use steadfast_core::command::{CommandBody, WhenBusy};
use steadfast_core::input::{CallOutcome, FailureClass, Input};
use steadfast_core::{next_deadline, outstanding};

use crate::world::{World, done, options, unknown};

#[derive(Debug, Clone)]
enum Step {
    Say(u8, WhenBusy),
    Reply(Vec<&'static str>),
    FailModel(FailureClass),
    Finish(usize, CallOutcome),
    Approve(bool),
    Retry(usize),
    Cancel,
    Compact,
    Delete,
    Activate,
    Release,
    Tick,
}

fn tools() -> impl Strategy<Value = Vec<&'static str>> {
    let tool = prop::sample::select(vec![
        "safe",
        "keyed",
        "never",
        "check",
        "ask",
        "client",
        "remote",
        "wait",
        "exclusive",
        "bad",
        "slotless_safe",
        "ask_soon",
    ]);
    prop::collection::vec(tool, 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    let when_busy = prop::sample::select(vec![
        WhenBusy::Queue,
        WhenBusy::Steer,
        WhenBusy::Interrupt,
        WhenBusy::Reject,
    ]);
    let class = prop::sample::select(vec![
        FailureClass::Retryable {
            retry_after_ms: None,
        },
        FailureClass::ContextOverflow,
        FailureClass::Fatal,
    ]);
    let retry = CallOutcome::Retry {
        detail: "busy".into(),
        retry_after_ms: None,
    };
    let outcome = prop::sample::select(vec![done(), unknown(), retry]);
    prop_oneof![
        3 => (0..6_u8, when_busy).prop_map(|(id, when_busy)| Step::Say(id, when_busy)),
        4 => tools().prop_map(Step::Reply),
        1 => class.prop_map(Step::FailModel),
        4 => (0..4_usize, outcome).prop_map(|(index, outcome)| Step::Finish(index, outcome)),
        2 => any::<bool>().prop_map(Step::Approve),
        1 => (0..4_usize).prop_map(Step::Retry),
        1 => Just(Step::Cancel),
        1 => Just(Step::Compact),
        1 => Just(Step::Delete),
        2 => Just(Step::Activate),
        1 => Just(Step::Release),
        2 => Just(Step::Tick),
    ]
}

fn take(world: &mut World, number: usize, step: &Step) {
    let runs_model = outstanding(&world.session)
        .iter()
        .any(|effect| matches!(effect, steadfast_core::effect::Effect::ModelCall { .. }));
    match step {
        Step::Say(id, when_busy) => {
            world.say_with(&format!("m{id}"), options(*when_busy));
        }
        Step::Reply(tools) if runs_model => world.reply(tools),
        Step::FailModel(class) if runs_model => world.fail_model(*class),
        Step::Reply(_) | Step::FailModel(_) => {}
        Step::Finish(index, outcome) => {
            let calls = world.session.turn.iter().flat_map(|turn| turn.calls.iter());
            let Some(call) = calls.map(|call| call.id).nth(*index) else {
                return;
            };
            let outcome = outcome.clone();
            for attempt in 1..=3 {
                let outcome = outcome.clone();
                world.input(&Input::CallFinished {
                    call,
                    attempt,
                    outcome,
                });
            }
        }
        Step::Approve(approved) => {
            let calls = world.session.turn.iter().flat_map(|turn| turn.calls.iter());
            let Some(call) = calls.map(|call| call.id).next() else {
                return;
            };
            world.decide_approval(&format!("a{number}"), call, *approved);
        }
        Step::Retry(index) => {
            let calls = world.session.turn.iter().flat_map(|turn| turn.calls.iter());
            let Some(call) = calls.map(|call| call.id).nth(*index) else {
                return;
            };
            world.command(&format!("r{number}"), CommandBody::RetryCall { call });
        }
        Step::Cancel => {
            world.command(&format!("c{number}"), CommandBody::Cancel { turn: None });
        }
        Step::Compact => {
            world.command(&format!("k{number}"), CommandBody::Compact);
        }
        Step::Delete => {
            world.command(&format!("d{number}"), CommandBody::Delete);
        }
        Step::Activate => world.activate(),
        Step::Release => world.release(),
        Step::Tick => {
            if next_deadline(&world.session).is_some() {
                world.tick();
            }
        }
    }
}

fn holds(world: &World) {
    let session = &world.session;
    let mut effects = outstanding(session);
    effects.sort();
    effects.dedup();
    assert_eq!(
        effects.len(),
        outstanding(session).len(),
        "an effect is named twice"
    );
    if let Some(turn) = &session.turn {
        let tools = matches!(turn.phase, steadfast_core::session::TurnPhase::Tools);
        assert_eq!(
            tools,
            !turn.calls.is_empty(),
            "calls are open exactly in the tools phase"
        );
    }
    assert!(session.queue.len() <= session.policy.queue_max as usize + 1);
    let sum: u64 = session
        .transcript
        .items
        .iter()
        .map(|item| item.tokens)
        .sum();
    assert_eq!(
        sum, session.transcript.tokens,
        "the estimate is the sum of its items"
    );
    let bytes = serde_json::to_vec(session).unwrap();
    let read: steadfast_core::session::Session = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(read, *session, "a state survives being written down");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_history_keeps_the_state_whole(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new();
        for (number, step) in steps.iter().enumerate() {
            take(&mut world, number, step);
            holds(&world);
        }
    }
}
