//! The JSON Schema of committed events as they stand in a session's stream and log.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use steadfast_core::event::Event;

/// The schema of one event with the fields that every event has.
pub(crate) fn event_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Event>().to_value();
    let common = common();
    let kinds = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    for kind in kinds.into_iter().flatten() {
        if let Some(properties) = kind.get_mut("properties").and_then(Value::as_object_mut) {
            for (key, property) in &common {
                properties.entry(key.clone()).or_insert(property.clone());
            }
        }
        if let Some(required) = kind.get_mut("required").and_then(Value::as_array_mut) {
            let missing = common.keys().map(|key| json!(key));
            let missing: Vec<Value> = missing.filter(|key| !required.contains(key)).collect();
            required.extend(missing);
        }
    }
    schema
}

fn common() -> Map<String, Value> {
    let number =
        |description: &str| json!({ "type": "integer", "minimum": 0, "description": description });
    Map::from_iter([
        (
            "seq".to_owned(),
            number("Number of the event in its session, from 1."),
        ),
        (
            "at".to_owned(),
            number("When, in milliseconds since the Unix epoch."),
        ),
        (
            "epoch".to_owned(),
            number("Ownership generation in which it was written."),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_committed_event_fits_its_schema() {
        let schema = event_schema();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let event = json!({
            "seq": 5, "at": 1, "epoch": 1, "type": "turn_ended", "turn": 3,
            "outcome": { "type": "failed", "code": "budget", "message": "out of tokens" },
        });
        assert!(validator.is_valid(&event));
        let mut unnumbered = event.clone();
        unnumbered.as_object_mut().unwrap().remove("seq");
        assert!(!validator.is_valid(&unnumbered));
        let mut unknown = event;
        unknown["type"] = json!("turn_vanished");
        assert!(!validator.is_valid(&unknown));
    }
}
