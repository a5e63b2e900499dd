use std::sync::{Arc, Mutex};

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn committed(seq: u64, at: u64, event: Value) -> Happening {
    Happening::Committed {
        seq,
        at,
        epoch: 1,
        event: Box::new(serde_json::from_value(event).unwrap()),
    }
}

fn text(text: &str) -> Happening {
    Happening::Live(Piece {
        epoch: 1,
        turn: 3,
        step: 1,
        attempt: 1,
        delta: Delta::Text {
            part: 0,
            text: text.to_owned(),
        },
    })
}

fn replied(seq: u64, text: &str, calls: &[(&str, &str, Value)]) -> Happening {
    let call = |(tool, place, gate): &(&str, &str, Value)| {
        json!({
            "provider_call_id": "p", "tool": tool, "input": { "inline": { "json": { "id": "A-1" } } },
            "triage": {
                "gate": gate, "rule": "keyed", "place": place, "in_doubt": "tell_model",
                "has_check": false, "exclusive": false, "deadline_ms": 1, "attempts_max": 5,
                "slot": true,
            },
        })
    };
    let calls: Vec<Value> = calls.iter().map(call).collect();
    let event = json!({
        "type": "model_replied", "turn": 3, "step": 1, "wire": "scripted", "model": "demo",
        "parts": [{ "inline": { "type": "text", "text": text } }], "calls": calls,
        "finish": "stop", "usage": { "input_tokens": 1, "output_tokens": 1 },
    });
    committed(seq, 1_000, event)
}

fn show(happenings: &[Happening]) -> (String, Vec<Next>) {
    let out = Shared::default();
    let mut screen = Screen::new(Box::new(out.clone()));
    let next = happenings
        .iter()
        .map(|happening| screen.show(happening).unwrap());
    let next = next.filter(|next| *next != Next::Go).collect();
    let bytes = out.0.lock().unwrap().clone();
    let shown = anstream::adapter::strip_str(&String::from_utf8(bytes).unwrap()).to_string();
    (shown, next)
}

#[test]
fn a_turn_with_a_call_that_runs_again_after_a_crash() {
    let open = json!({ "type": "open" });
    let (shown, next) = show(&[
        committed(4, 900, json!({ "type": "turn_started", "turn": 3 })),
        text("Let me "),
        text("see."),
        replied(5, "Let me see.", &[("refund_order", "local", open)]),
        committed(
            6,
            1_000,
            json!({ "type": "call_started", "call": "1-5-0", "attempt": 1, "deadline": 9 }),
        ),
        Happening::Lost,
        Happening::Back,
        committed(
            7,
            2_000,
            json!({ "type": "activated", "node": "n2", "epoch": 2, "policy": serde_json::to_value(steadfast_core::input::Policy::default()).unwrap() }),
        ),
        committed(
            8,
            2_000,
            json!({ "type": "call_started", "call": "1-5-0", "attempt": 1, "deadline": 9 }),
        ),
        committed(
            9,
            2_500,
            json!({
                "type": "call_settled", "call": "1-5-0", "settlement": "done",
                "output": { "output": { "inline": { "type": "json", "value": { "ok": true } } } },
            }),
        ),
        replied(10, "Done.", &[]),
        committed(
            11,
            3_000,
            json!({ "type": "turn_ended", "turn": 3, "outcome": { "type": "completed", "finish": "stop" } }),
        ),
    ]);
    assert_snapshot!(shown);
    assert_eq!(
        next,
        [Next::Ended {
            turn: 3,
            good: true
        }]
    );
}

#[test]
fn people_are_asked_for_what_they_owe() {
    let approval = json!({ "type": "approval", "expires_in_ms": null });
    let open = json!({ "type": "open" });
    let (shown, next) = show(&[
        committed(4, 900, json!({ "type": "turn_started", "turn": 3 })),
        replied(
            5,
            "",
            &[
                ("refund_order", "local", approval),
                ("ask_browser", "client", open),
            ],
        ),
        committed(
            6,
            1_000,
            json!({ "type": "approval_requested", "approval": "approval-1-5-0", "input_digest": "0000000000000007" }),
        ),
        committed(
            7,
            1_500,
            json!({ "type": "approval_decided", "approval": "approval-1-5-0", "approved": false, "reason": "too much" }),
        ),
        committed(
            8,
            1_500,
            json!({
                "type": "call_settled", "call": "1-5-0", "settlement": "denied",
                "output": { "output": { "inline": { "type": "execution_denied", "reason": "too much" } } },
            }),
        ),
        committed(
            9,
            3_000,
            json!({ "type": "turn_ended", "turn": 3, "outcome": { "type": "failed", "code": "budget", "message": "out of tokens" } }),
        ),
    ]);
    assert_snapshot!(shown);
    let run = Ask::Run {
        call: "1-5-1".parse().unwrap(),
        tool: "ask_browser".to_owned(),
    };
    let approve = Ask::Approve {
        approval: "approval-1-5-0".parse().unwrap(),
        tool: "refund_order".to_owned(),
    };
    let ended = Next::Ended {
        turn: 3,
        good: false,
    };
    assert_eq!(
        next,
        [Next::Ask(vec![run]), Next::Ask(vec![approve]), ended]
    );
}
