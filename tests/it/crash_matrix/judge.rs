//! What must hold of every cell, whatever was cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde_json::{Value, json};
use steadfast_tests::ledger::Entry;

use super::cell::{CHECKED, Cell, Point, Recovery};
use super::scenario::{LAST_REPLY, Played};
use steadfast_tests::joined;

/// Judges a cell.
pub(super) fn judge(cell: Cell, played: &Played) {
    joined::check_committed(&played.frames);
    joined::check_deltas(&played.frames);
    turns_end_once(cell, played);
    calls_settle_once(played);
    tools_ran_as_their_rule_says(cell, played);
    the_model_was_told(cell, played);
    approvals_keep_their_id(played);
    let rejected: Vec<&str> = played
        .asked
        .iter()
        .filter_map(|asked| asked.violation.as_deref())
        .collect();
    assert_eq!(rejected, Vec::<&str>::new(), "requests no provider takes");
}

/// Each turn ends exactly once, as its receipt says.
fn turns_end_once(cell: Cell, played: &Played) {
    let ended: Vec<&Value> = joined::of_kind(&played.frames, "turn_ended");
    let turns: BTreeSet<u64> = ended
        .iter()
        .map(|event| event["turn"].as_u64().unwrap())
        .collect();
    assert_eq!(ended.len(), turns.len(), "a turn ended twice: {ended:#?}");
    assert_eq!(ended.len(), 2, "two messages, two turns: {ended:#?}");
    let cancelled = match cell.point {
        Point::CancelRecorded => true,
        // Cancelled again only where the call ran again; else the turn was over before.
        Point::CancelNotRecorded => cell.rule.recovery() == Recovery::RunAgain,
        _ => false,
    };
    let state = if cancelled { "cancelled" } else { "completed" };
    assert_eq!(played.first["state"], state, "{}", played.first);
    assert_eq!(ended[0]["outcome"]["type"], state, "{}", ended[0]);
    assert_eq!(played.second["state"], "completed", "{}", played.second);
    if !cancelled {
        the_last_reply_is_shown(played);
    }
}

/// A client shows the last reply, or its beginning while the rest is on its way as a fact.
fn the_last_reply_is_shown(played: &Played) {
    let replies = joined::of_kind(&played.frames, "model_replied");
    let last = replies.iter().find(|event| event["step"] == 2).unwrap();
    let text = &last["parts"][0]["inline"]["text"];
    assert_eq!(text, LAST_REPLY, "{last}");
    let shown = joined::shown_text(&played.frames, 2, last["epoch"].as_u64().unwrap());
    assert!(LAST_REPLY.starts_with(&shown), "the client shows {shown:?}");
}

/// Each call settles exactly once.
fn calls_settle_once(played: &Played) {
    let settled = joined::of_kind(&played.frames, "call_settled");
    let calls: BTreeSet<&str> = settled
        .iter()
        .map(|event| event["call"].as_str().unwrap())
        .collect();
    assert_eq!(settled.len(), calls.len(), "settled twice: {settled:#?}");
    let replied = joined::of_kind(&played.frames, "model_replied");
    let asked: usize = replied
        .iter()
        .map(|event| event["calls"].as_array().unwrap().len())
        .sum();
    assert_eq!(settled.len(), asked, "calls asked for and settled");
}

/// Requests that each tool may have seen, checks not counted.
fn requests(cell: Cell, tool: &str) -> RangeInclusive<usize> {
    let lost = |first: usize| match cell.rule.recovery() {
        Recovery::RunAgain => first + 1..=first + 1,
        Recovery::Checked | Recovery::InDoubt => first..=first,
    };
    let ahead = usize::from(cell.runs_ahead());
    match (cell.point, tool) {
        (Point::SomeCallsFinished, "pay_b" | "pay_c") => lost(1),
        (_, "pay_b" | "pay_c") => 0..=0,
        (Point::QueuedBehind, _) => lost(1),
        // It may have been started for the Record that was not written, or whose end nobody heard.
        (Point::ReplyNotRecorded, _) => 1..=1 + ahead,
        (Point::CallRecordedNotStarted, _) => {
            let again = lost(0);
            *again.start()..=again.end() + ahead
        }
        (Point::ApprovedNotStarted, _) => {
            let again = lost(0);
            *again.start()..=again.end() + ahead
        }
        (
            Point::CallRunningDone
            | Point::CallRunningUndone
            | Point::CallFinishedNotRecorded
            | Point::CancelNotRecorded,
            _,
        ) => lost(1),
        _ => 1..=1,
    }
}

fn tools_ran_as_their_rule_says(cell: Cell, played: &Played) {
    for tool in ["pay", "pay_b", "pay_c"] {
        let seen: Vec<&Entry> = played
            .entries
            .iter()
            .filter(|entry| entry.tool == tool && !entry.check)
            .collect();
        let allowed = requests(cell, tool);
        assert!(
            allowed.contains(&seen.len()),
            "{tool} was asked {} times, allowed are {allowed:?}: {seen:#?}",
            seen.len()
        );
        let keys: BTreeSet<&str> = seen.iter().map(|entry| entry.key.as_str()).collect();
        // A reply that was lost is asked for again, and its calls are others.
        let keys_max = match cell.point {
            Point::ReplyNotRecorded if cell.runs_ahead() => 2,
            _ => 1,
        };
        assert!(keys.len() <= keys_max, "one call, several keys: {keys:?}");
        attempts_rise(&seen);
    }
}

/// Under one key, attempt, epoch and fence rise with each attempt.
fn attempts_rise(seen: &[&Entry]) {
    let mut last: BTreeMap<&str, (u64, u64, &str)> = BTreeMap::new();
    for entry in seen {
        let number = |name: &str| -> u64 {
            let header = entry.request.header(name);
            let text = header.unwrap_or_else(|| panic!("no header {name}: {entry:#?}"));
            text.parse().unwrap()
        };
        let fence = entry.request.header("steadfast-fence").unwrap_or_default();
        let this = (
            number("steadfast-epoch"),
            number("steadfast-attempt"),
            fence,
        );
        if let Some(before) = last.insert(&entry.key, this) {
            assert!(
                before.0 < this.0 && before.1 < this.1 && before.2 < this.2,
                "epoch, attempt and fence rise: {before:?}, then {this:?}"
            );
        }
    }
}

/// The model learns what became of a call whose outcome was lost.
fn the_model_was_told(cell: Cell, played: &Played) {
    let settlements: BTreeMap<&str, &Value> = joined::of_kind(&played.frames, "call_settled")
        .iter()
        .map(|event| (event["call"].as_str().unwrap(), &event["settlement"]))
        .collect();
    let in_doubt = settlements
        .values()
        .filter(|settlement| ***settlement == json!("in_doubt"))
        .count();
    let told = |words: &str| {
        played
            .asked
            .iter()
            .any(|asked| asked.body.to_string().contains(words))
    };
    let expected = calls_in_doubt(cell);
    assert_eq!(in_doubt, expected, "calls in doubt: {settlements:?}");
    assert_eq!(
        told("cut off and is not repeated"),
        expected > 0,
        "what the model was told of a call in doubt"
    );
    let checked = cell.point.loses_an_outcome() && cell.rule.recovery() == Recovery::Checked;
    assert_eq!(
        told(CHECKED),
        checked,
        "what the model was told by the check"
    );
}

fn calls_in_doubt(cell: Cell) -> usize {
    let never = cell.rule.replay() == "never";
    match cell.point {
        // A cancel asks nobody: a started call that must not be repeated is in doubt.
        Point::CancelRecorded => usize::from(never),
        // The call that ran again was cancelled while it ran.
        Point::CancelNotRecorded if cell.rule.recovery() == Recovery::RunAgain => {
            usize::from(never)
        }
        Point::SomeCallsFinished if cell.rule.recovery() == Recovery::InDoubt => 2,
        point if point.loses_an_outcome() && cell.rule.recovery() == Recovery::InDoubt => 1,
        _ => 0,
    }
}

/// An approval has one id, before and after.
fn approvals_keep_their_id(played: &Played) {
    let asked: BTreeSet<&str> = joined::of_kind(&played.frames, "approval_requested")
        .iter()
        .map(|event| event["approval"].as_str().unwrap())
        .collect();
    let decided: BTreeSet<&str> = joined::of_kind(&played.frames, "approval_decided")
        .iter()
        .map(|event| event["approval"].as_str().unwrap())
        .collect();
    assert_eq!(asked, decided, "approvals asked for and decided");
    assert!(asked.len() <= 1, "one call, several approvals: {asked:?}");
}
