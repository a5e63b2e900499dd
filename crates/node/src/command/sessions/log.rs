//! A session's events, one a line.

use serde_json::Value;

use crate::terminal::{ACCENT, DIM, line, paint};

/// Prints events with number, time since the first, type and fields.
pub(super) fn print(events: &[Value]) {
    let Some(first) = events.first().and_then(|event| event["at"].as_u64()) else {
        crate::terminal::say!("no events");
        return;
    };
    let mut epoch = None;
    for event in events {
        if epoch != Some(&event["epoch"]) {
            crate::terminal::say!("{}", paint(DIM, format!("── epoch {}", event["epoch"])));
            epoch = Some(&event["epoch"]);
        }
        let at = event["at"].as_u64().unwrap_or(first).saturating_sub(first);
        let kind = event["type"].as_str().unwrap_or("?");
        crate::terminal::say!(
            "{:>5}  {:>9}  {}  {}",
            event["seq"].as_u64().unwrap_or_default(),
            format!("+{}.{:03}", at / 1_000, at % 1_000),
            paint(ACCENT, format!("{kind:22}")),
            paint(DIM, fields(event)),
        );
    }
}

/// What an event says besides what all events say.
fn fields(event: &Value) -> String {
    let known = ["seq", "at", "epoch", "type"];
    let rest: Vec<String> = event
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !known.contains(&key.as_str()))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    line(&rest.join(" "), 160)
}
