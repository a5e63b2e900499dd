//! What `steadfast sessions repair` asks for and prints.

use serde_json::{Value, json};

use crate::terminal::{GOOD, paint, say};

/// What shall be repaired.
pub(super) struct Wanted {
    pub(super) settle: Option<String>,
    pub(super) output: Option<String>,
    pub(super) error: Option<String>,
    pub(super) skip: Option<String>,
    pub(super) retry: Option<String>,
}

impl Wanted {
    pub(super) fn is_unquarantine(&self) -> bool {
        self.settle.is_none() && self.skip.is_none() && self.retry.is_none()
    }

    /// What to say once it is done.
    pub(super) fn done(&self) -> &'static str {
        match self.retry {
            Some(_) => "the call runs once more",
            None => "the call is settled",
        }
    }

    pub(super) fn body(self) -> Value {
        if let Some(call) = self.retry {
            return json!({ "action": "retry", "call_id": call });
        }
        match (self.settle, self.output, self.error, self.skip) {
            (Some(call), Some(output), _, _) => {
                json!({ "action": "settle", "call_id": call, "output": output })
            }
            (Some(call), None, error, _) => {
                json!({ "action": "settle", "call_id": call, "error": error })
            }
            (None, _, _, Some(call)) => json!({ "action": "skip", "call_id": call }),
            (None, _, _, None) => json!({ "action": "unquarantine" }),
        }
    }
}

pub(super) fn print(done: &str, answer: &Value) {
    let done = match (answer["state"].as_str(), answer["lost"].as_object()) {
        (_, Some(lost)) => format!(
            "the session goes on after event {}; the rest of its log is kept, no longer counts, and \
             events go on from number {}",
            lost["after"], lost["before"]
        ),
        (Some("done"), None) => done.to_owned(),
        _ => "the command is durable and will be decided".to_owned(),
    };
    say!("{}", paint(GOOD, &done));
}

/// Shows what a repair would give up.
pub(super) fn print_damage(damage: &Value) {
    say!(
        "{}: {}",
        damage["code"].as_str().unwrap_or_default(),
        damage["detail"].as_str().unwrap_or_default()
    );
    say!(
        "the log can be read up to event {}; after it",
        damage["readable_through"]
    );
    for row in damage["rows"].as_array().into_iter().flatten() {
        let events = match (row["first_seq"].as_u64(), row["last_seq"].as_u64()) {
            (Some(first), Some(last)) => format!("events {first} to {last}"),
            (Some(first), None) => format!("from event {first}"),
            (None, _) => "events unknown".to_owned(),
        };
        say!(
            "  row {}  {:<10}  {events}  {}",
            row["row"],
            row["state"].as_str().unwrap_or_default(),
            row["detail"].as_str().unwrap_or_default()
        );
    }
    if let Some(more) = damage["rows_untold"].as_u64().filter(|more| *more > 0) {
        say!("  and {more} more");
    }
}
