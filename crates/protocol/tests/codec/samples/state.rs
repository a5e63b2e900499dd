//! A snapshot of a session in the middle of much.

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde_json::json;
use steadfast_core::call::{Call, CallState};
use steadfast_core::content::Stored;
use steadfast_core::event::Notice;
use steadfast_core::id::{ApprovalId, Epoch, Seq, Timestamp};
use steadfast_core::receipt::{Block, Outline, ReceiptRun, Receipts};
use steadfast_core::session::{
    Compaction, EndedTurn, Existence, Ownership, Profile, QueuedMessage, Session, Turn, TurnPhase,
};
use steadfast_core::transcript::{CallResult, Item, ItemBody, Transcript, TranscriptCall};
use steadfast_protocol::record::RecordHash;
use steadfast_protocol::snapshot::Snapshot;

use super::calls::settlements;
use super::content::{blob, content, inputs, outputs, reply_parts, triages, usage};
use super::turns::{new_sessions, options, origin, outcomes, policy};
use super::{NOW, call, command, key, node, turn};

pub(crate) fn snapshot() -> Snapshot {
    let new = new_sessions().remove(0);
    let mut session = Session::new(key());
    session.seq = Seq(90);
    session.epoch = Epoch(3);
    session.at = NOW;
    session.ownership = Ownership::Owned {
        node: node("n1-01jabc"),
    };
    session.existence = Existence::Open(Profile {
        agent: new.agent,
        metadata: Arc::new(new.metadata),
        tags: Arc::new(new.tags),
        created_at: Timestamp(NOW.0 - 5_000),
        forked_from: Some((key(), Seq(40))),
        parent: None,
    });
    session.policy = policy();
    session.turn = Some(open_turn());
    session.queue = Vector::from_iter([Arc::new(QueuedMessage {
        turn: turn(14),
        message: command("msg_2"),
        content: Arc::new(content()),
        options: Arc::new(options().remove(4)),
    })]);
    session.transcript = transcript();
    session.compaction = Some(Compaction {
        number: 2,
        attempt: 1,
        through: Seq(60),
        retry_at: Some(NOW),
    });
    session.compactions = 2;
    session.receipts = receipts();
    session.in_doubt = OrdMap::from_iter([(call(7), "refund_order".to_owned())]);
    session.approvals = OrdMap::from_iter([(call(3), Some(true)), (call(4), None)]);
    let notice = Notice::CancelJob {
        call: call(6),
        attempt: 2,
        tool: String::new(),
        under_claim: false,
        agent: None,
    };
    session.outbox = OrdMap::from_iter([(5_u64, notice)]);
    session.notices = 5;
    session.usage = usage();
    session.last_turn = Some(EndedTurn {
        id: turn(2),
        message: command("msg_0"),
        outcome: outcomes().remove(5),
        at: Timestamp(NOW.0 - 1_000),
    });
    Snapshot {
        session,
        last_record: RecordHash::of(b"the last record"),
        tail: 4_711,
        receipts: vec![ReceiptRun {
            first_block: 0,
            blob: blob(),
            outline: Some(Arc::new(Outline::of(&receipt_blocks()))),
        }],
    }
}

/// As it was written before a run of receipts had an outline.
pub(crate) fn snapshot_5() -> Snapshot {
    let mut snapshot = snapshot();
    for run in &mut snapshot.receipts {
        run.outline = None;
    }
    snapshot
}

pub(crate) fn receipt_blocks() -> Vec<Arc<Block>> {
    let receipts = receipts();
    let blocks = receipts.blocks();
    blocks.map(|(_, block)| Arc::clone(block)).collect()
}

fn receipts() -> Receipts {
    serde_json::from_value(json!({
        "first_block": 8,
        "blocks": [{
            "newest": NOW,
            "packed": packed_receipt(),
            "others": [[[4, 5], {
                "digest": 6,
                "verdict": {"type": "rejected", "reason": "turn_running"},
                "at": NOW,
                "progress": null,
            }]],
        }],
        "recent": {
          "horizon": 5,
          "packed": packed_receipt(),
          "others": [
            [0, [1, 2], {
                "digest": 3,
                "verdict": {"type": "accepted", "turn": 12},
                "at": NOW,
                "progress": {"type": "running", "turn": 12},
            }],
            [2, [u64::MAX, 0], {
                "digest": u64::MAX,
                "verdict": {"type": "rejected", "reason": "queue_full"},
                "at": NOW,
                "progress": null,
            }],
          ],
        },
    }))
    .unwrap()
}

/// Seven numbers of eight bytes each.
fn packed_receipt() -> Vec<u8> {
    let numbers: [u64; 7] = [1, 2, 3, NOW.0, 12, 1 << 56 | 30, 13];
    numbers
        .iter()
        .flat_map(|number| number.to_be_bytes())
        .collect()
}

fn open_turn() -> Turn {
    let states = [
        CallState::Proposed,
        CallState::AwaitingApproval {
            approval: ApprovalId(call(1)),
            expires_at: Some(NOW),
        },
        CallState::AwaitingSlot,
        CallState::AwaitingClient,
        CallState::Started {
            attempt: 1,
            deadline: NOW,
        },
        CallState::Queued {
            attempt: 1,
            deadline: NOW,
        },
        CallState::Backoff {
            attempt: 1,
            retry_at: NOW,
            deadline: NOW,
        },
        CallState::Checking { attempt: 1 },
        CallState::InDoubt { attempt: 2 },
        CallState::Settled {
            settlement: settlements()[0],
            output: outputs().remove(1),
        },
    ];
    let triages = triages().into_iter().cycle();
    let calls = states.into_iter().zip(triages).zip(0..);
    let calls = calls.map(|((state, triage), index)| Call {
        id: call(index),
        provider_call_id: format!("toolu_{index}"),
        tool: "get_weather".into(),
        input: Arc::new(inputs().remove(usize::from(index % 3))),
        triage,
        approval_reason: (index == 4).then(|| "go ahead".into()),
        may_have_acted: false,
        question: None,
        since: NOW,
        state,
    });
    Turn {
        id: turn(12),
        message: command("msg_1"),
        options: Arc::new(options().remove(4)),
        started_at: NOW,
        step: 4,
        phase: TurnPhase::Tools,
        calls: calls.map(Arc::new).collect(),
        calls_total: 31,
        usage: usage(),
        crashes_in_row: 1,
        crashes_in_turn: 2,
        hold_until: Some(NOW),
        compaction_tried: true,
        answers_refused: 1,
        joined: Vector::from_iter([command("msg_3")]),
    }
}

fn transcript() -> Transcript {
    let calls = inputs().into_iter().zip(0..);
    let calls = calls.map(|(input, index)| TranscriptCall {
        id: call(index),
        provider_call_id: format!("toolu_{index}"),
        tool: "get_weather".into(),
        input: Arc::new(input),
    });
    let results = settlements().into_iter().zip(outputs()).zip(0..);
    let results = results.map(|((settlement, output), index)| CallResult {
        id: call(index),
        provider_call_id: format!("toolu_{index}"),
        tool: "get_weather".into(),
        settlement,
        output,
    });
    let bodies = [
        ItemBody::Packed {
            packed: origin().transcript.remove(0),
        },
        ItemBody::Summary {
            summary: Stored::Inline("They talked.".into()),
        },
        ItemBody::User {
            turn: turn(12),
            message: command("msg_1"),
            content: Arc::new(content()),
        },
        ItemBody::Reply {
            turn: turn(12),
            step: 3,
            wire: "anthropic".into(),
            model: "claude-sonnet-5-5".into(),
            parts: reply_parts(),
            calls: calls.collect(),
        },
        ItemBody::Results {
            turn: turn(12),
            results: results.collect(),
        },
        ItemBody::Note {
            text: "The process was restarted.".into(),
        },
    ];
    let items = bodies.into_iter().zip(40..).map(|(body, seq)| {
        Arc::new(Item {
            seq: Seq(seq),
            tokens: 100,
            body,
        })
    });
    Transcript {
        items: items.collect(),
        tokens: 600,
        notes: Vector::from_iter(["Files were cleared.".to_owned()]),
    }
}
