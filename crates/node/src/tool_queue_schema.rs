//! The JSON Schema of what passes between sessions and remote workers.
//!
//! The checked-in copy is `crates/protocol/tool-queue.schema.json`; a test compares it. To write it
//! anew, run `cargo run -- schema tool-queue > crates/protocol/tool-queue.schema.json`.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use steadfast_protocol::tool::{Answer, Job, Progress, VERSION};

/// The schema of all messages, each under its name in `$defs`.
pub(crate) fn tool_queue_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let messages = [
        generator.subschema_for::<Job>().to_value(),
        generator.subschema_for::<Answer>().to_value(),
        generator.subschema_for::<Progress>().to_value(),
    ];
    let mut definitions: Map<String, Value> = generator.take_definitions(true);
    for message in ["Job", "Answer", "Progress"] {
        let version = definitions
            .get_mut(message)
            .and_then(|schema| schema.pointer_mut("/properties/version"))
            .and_then(Value::as_object_mut);
        if let Some(version) = version {
            version.insert("const".to_owned(), json!(VERSION));
        }
    }
    definitions.extend(signs());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Messages of the tool queue, version {VERSION}"),
        "description": "A job, the answer to it, and progress are JSON texts. A claim is the value of \
                        a key; heartbeats and the end of a delivery are acknowledgements of JetStream.",
        "oneOf": messages,
        "$defs": definitions,
    })
}

/// What is said without JSON, each as the text that is sent.
fn signs() -> Map<String, Value> {
    let signs = json!({
        "Claim": {
            "description": "Value of the key `claim` of a job in the bucket `addresses.claims`, \
                            created once and never changed: who may run it. A worker takes a value \
                            that no other delivery ever has; `withdrawn` is the session's own.",
            "type": "string",
            "pattern": "^[A-Za-z0-9_.-]+$",
        },
        "Heartbeat": {
            "description": "Acknowledgement of a delivery that says that the worker is still at it: \
                            more often than the consumer's `ack_wait`.",
            "const": "+WPI",
        },
        "Finished": {
            "description": "Acknowledgement that takes a job out of the queue: after its answer was \
                            stored, or when it must not run here.",
            "enum": ["+ACK", ""],
        },
        "GivenBack": {
            "description": "Acknowledgement that gives a job to others, after a delay in nanoseconds.",
            "type": "string",
            "pattern": "^-NAK( \\{\"delay\": ?[0-9]+\\})?$",
        },
        "Cancel": {
            "description": "Message on `addresses.cancels`: nobody wants the call any more. Its \
                            content means nothing.",
        },
    });
    match signs {
        Value::Object(signs) => signs,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(definition: &str, message: &Value) -> bool {
        let mut schema = tool_queue_schema();
        let fields = schema.as_object_mut().unwrap();
        fields.remove("oneOf");
        fields.insert("$ref".to_owned(), json!(format!("#/$defs/{definition}")));
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        validator.is_valid(message)
    }

    #[test]
    fn the_checked_in_schema_is_that_of_the_code() {
        let checked_in = include_str!("../../protocol/tool-queue.schema.json");
        let now = serde_json::to_string_pretty(&tool_queue_schema()).unwrap();
        assert!(
            checked_in.trim_end() == now,
            "it differs: cargo run -- schema tool-queue > crates/protocol/tool-queue.schema.json"
        );
    }

    #[test]
    fn messages_fit_and_others_do_not() {
        let job = json!({
            "version": 1, "kind": "run", "tenant": "default", "session": "s1", "agent": "a",
            "turn": 3, "tool": "pay", "call": "1-7-0", "key": "default/s1/1-7-0", "attempt": 1,
            "epoch": 1, "replay": "never", "input": { "cents": 5 },
            "deadline_at_ms": 1_800_000_000_000_u64, "metadata": null,
            "claim": "default.s1.1-7-0.1",
            "addresses": {
                "answers": "sf.mbox.1.default.s1.ctl", "progress": "sf.progress.default.s1",
                "cancels": "sf.cancel.default.s1.1-7-0", "claims": "SF_CLAIMS",
            },
        });
        assert!(fits("Job", &job));
        let answer = json!({
            "version": 1, "kind": "run", "call": "1-7-0", "attempt": 1,
            "outcome": { "type": "done", "output": { "paid": true } },
        });
        assert!(fits("Answer", &answer));
        for (field, value) in [
            ("version", json!(2)),
            ("kind", json!("walk")),
            ("outcome", json!({ "type": "fine" })),
            ("result", json!(1)),
        ] {
            let mut other = answer.clone();
            other[field] = value;
            assert!(!fits("Answer", &other), "{other}");
        }
        let progress = json!({ "version": 1, "call": "1-7-0", "output": { "page": 2 } });
        assert!(fits("Progress", &progress));
        assert!(fits("Heartbeat", &json!("+WPI")));
        assert!(!fits("Claim", &json!("two words")));
    }
}
