//! What `steadfast sessions repair` asks for and prints.

use serde_json::{Value, json};

use crate::terminal::{GOOD, paint, say};

/// What shall be repaired.
pub(super) struct Wanted {
    pub(super) settle: Option<String>,
    pub(super) output: Option<String>,
    pub(super) error: Option<String>,
    pub(super) skip: Option<String>,
}

impl Wanted {
    pub(super) fn is_unquarantine(&self) -> bool {
        self.settle.is_none() && self.skip.is_none()
    }

    pub(super) fn body(self) -> Value {
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

pub(super) fn print(answer: &Value) {
    let done = match (answer["state"].as_str(), answer["lost"].as_object()) {
        (_, Some(lost)) => format!(
            "the session goes on after event {}; the rest of its log is kept, no longer counts, and \
             events go on from number {}",
            lost["after"], lost["before"]
        ),
        (Some("done"), None) => "the call is settled".to_owned(),
        _ => "the command is durable and will be decided".to_owned(),
    };
    say!("{}", paint(GOOD, &done));
}
