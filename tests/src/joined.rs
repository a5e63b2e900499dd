//! What a client that came back after every cut has seen, and what must hold of it.

use std::collections::BTreeMap;

use crate::events::Frame;
use serde_json::Value;

/// The committed events of a joined stream, in order.
pub fn events(frames: &[Frame]) -> Vec<&Value> {
    let committed = frames.iter().filter(|frame| frame.is_committed());
    committed.map(|frame| &frame.data).collect()
}

/// Committed events of one kind.
pub fn of_kind<'a>(frames: &'a [Frame], kind: &str) -> Vec<&'a Value> {
    let mut found = events(frames);
    found.retain(|event| event["type"] == kind);
    found
}

/// Committed events have no gap and no repeat, over all connections.
pub fn check_committed(frames: &[Frame]) {
    let numbers: Vec<u64> = events(frames)
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "numbers of committed events");
    for frame in frames.iter().filter(|frame| frame.is_committed()) {
        assert_eq!(frame.id, Some(frame.data["seq"].to_string()), "cursor");
    }
}

/// Position of a piece: epoch, turn, step, attempt.
type Attempt = (u64, u64, u64, u64);

fn attempt(delta: &Value) -> Attempt {
    let number = |field: &str| delta[field].as_u64().unwrap();
    (
        number("epoch"),
        number("turn"),
        number("step"),
        number("attempt"),
    )
}

/// On each connection the pieces of an attempt begin at its start and follow one another, and no
/// piece of an older attempt follows one of a newer.
pub fn check_deltas(frames: &[Frame]) {
    let mut newest: BTreeMap<u32, (Attempt, u64)> = BTreeMap::new();
    for frame in frames.iter().filter(|frame| frame.event == "delta") {
        let delta = &frame.data;
        let last = delta["n"].as_u64().unwrap();
        let first = delta["first_n"].as_u64().unwrap_or(last);
        let this = attempt(delta);
        let expected = match newest.get(&frame.connection) {
            Some((before, next)) if *before == this => *next,
            Some((before, _)) => {
                assert!(*before < this, "{before:?} is newer than {this:?}");
                0
            }
            None => 0,
        };
        assert_eq!(first, expected, "number of a piece of {this:?}: {delta}");
        newest.insert(frame.connection, (this, last + 1));
    }
}

/// The text that a client shows of a step by its pieces, once it knows the epoch that wrote it.
pub fn shown_text(frames: &[Frame], step: u64, epoch: u64) -> String {
    let deltas = || frames.iter().filter(|frame| frame.event == "delta");
    let of_step = |frame: &&Frame| frame.data["step"] == step && frame.data["epoch"] == epoch;
    let Some(newest) = deltas().rfind(of_step) else {
        return String::new();
    };
    let this = attempt(&newest.data);
    let pieces = deltas()
        .filter(|frame| frame.connection == newest.connection && attempt(&frame.data) == this);
    pieces
        .filter(|frame| frame.data["delta"]["type"] == "text")
        .filter_map(|frame| frame.data["delta"]["text"].as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn committed(seq: u64, connection: u32) -> Frame {
        Frame {
            id: Some(seq.to_string()),
            event: "turn_started".to_owned(),
            data: json!({ "seq": seq, "type": "turn_started" }),
            connection,
        }
    }

    fn piece(attempt: u64, first: u64, last: u64, text: &str, connection: u32) -> Frame {
        let data = json!({
            "epoch": 1, "turn": 3, "step": 1, "attempt": attempt, "first_n": first, "n": last,
            "delta": { "type": "text", "part": 0, "text": text },
        });
        Frame {
            id: None,
            event: "delta".to_owned(),
            data,
            connection,
        }
    }

    fn fails(check: fn(&[Frame]), frames: &[Frame]) -> bool {
        std::panic::catch_unwind(|| check(frames)).is_err()
    }

    #[test]
    fn a_gap_or_a_repeat_of_committed_events_is_found() {
        let good = [committed(1, 1), committed(2, 1), committed(3, 2)];
        check_committed(&good);
        assert!(fails(check_committed, &[committed(1, 1), committed(3, 1)]));
        let repeat = [committed(1, 1), committed(2, 1), committed(2, 2)];
        assert!(fails(check_committed, &repeat));
    }

    #[test]
    fn a_missing_or_stale_piece_is_found() {
        let good = [piece(1, 0, 1, "a", 1), piece(1, 2, 2, "b", 1)];
        check_deltas(&good);
        assert!(fails(check_deltas, &[piece(1, 1, 1, "a", 1)]));
        let gap = [piece(1, 0, 0, "a", 1), piece(1, 2, 2, "b", 1)];
        assert!(fails(check_deltas, &gap));
        let stale = [piece(2, 0, 0, "a", 1), piece(1, 0, 0, "b", 1)];
        assert!(fails(check_deltas, &stale));
    }

    #[test]
    fn a_reconnect_begins_at_the_start_of_the_attempt() {
        let frames = [piece(1, 0, 0, "a", 1), piece(1, 0, 1, "ab", 2)];
        check_deltas(&frames);
        assert_eq!(shown_text(&frames, 1, 1), "ab");
        assert_eq!(shown_text(&frames, 1, 2), "");
    }
}
