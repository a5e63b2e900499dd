//! Whether an object stands as wanted, setting by setting.

use serde_json::Value;

use super::SetupError;

/// Settings of a stream that a promise of some port rests on.
pub(super) const STREAM_KEYS: &[&str] = &[
    "subjects",
    "retention",
    "storage",
    "num_replicas",
    "discard",
    "discard_new_per_subject",
    "max_msgs_per_subject",
    "max_msgs",
    "max_bytes",
    "max_age",
    "max_msg_size",
    "no_ack",
    "sealed",
    "deny_delete",
    "deny_purge",
    "allow_direct",
    "allow_msg_ttl",
    "allow_msg_schedules",
    "allow_rollup_hdrs",
    "persist_mode",
    "mirror",
    "sources",
    "subject_transform",
    "republish",
];

/// The same of a consumer.
pub(super) const CONSUMER_KEYS: &[&str] = &[
    "durable_name",
    "filter_subject",
    "deliver_policy",
    "ack_policy",
    "ack_wait",
    "max_deliver",
    "max_ack_pending",
    "backoff",
    "headers_only",
];

/// The first setting that is not as wanted.
pub(super) fn difference(
    object: &str,
    keys: &[&str],
    wanted: &Value,
    found: &Value,
) -> Result<(), SetupError> {
    for key in keys {
        let (wanted, found) = (plain(key, wanted.get(key)), plain(key, found.get(key)));
        if wanted != found {
            return Err(SetupError::Differs {
                object: object.to_owned(),
                setting: (*key).to_owned(),
                wanted: wanted.to_string(),
                found: found.to_string(),
                remedy: remedy(object, key),
            });
        }
    }
    Ok(())
}

fn remedy(object: &str, key: &str) -> String {
    if key == "num_replicas" {
        return "set store.nats.replicas to what is there, or change the stream with \
                `nats stream edit --replicas`"
            .to_owned();
    }
    format!(
        "if {object} belongs to another system, choose another store.nats.prefix; else change it \
         with the `nats` command, or remove it if nothing in it is needed"
    )
}

/// A setting that is left out stands for one that is off; a limit of nothing is no limit.
fn plain(key: &str, value: Option<&Value>) -> Value {
    let limit = matches!(
        key,
        "max_msgs_per_subject" | "max_msgs" | "max_bytes" | "max_msg_size" | "max_deliver"
    );
    match value {
        None | Some(Value::Null) if limit => (-1).into(),
        None | Some(Value::Null) => Value::Null,
        Some(Value::Bool(false)) => Value::Null,
        Some(Value::String(text)) if text.is_empty() || text == "default" => Value::Null,
        Some(Value::Array(items)) if items.is_empty() => Value::Null,
        Some(Value::Number(number)) if limit && number.as_i64() == Some(0) => (-1).into(),
        Some(Value::Number(number)) if number.as_i64() == Some(0) => Value::Null,
        Some(value) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_is_off() {
        let wanted = json!({ "subjects": ["a"], "max_msgs": -1, "deny_purge": false });
        let found = json!({ "subjects": ["a"], "max_msgs": 0, "sources": [], "max_bytes": -1 });
        assert_eq!(difference("stream S", STREAM_KEYS, &wanted, &found), Ok(()));
    }

    #[test]
    fn the_setting_that_differs_is_named() {
        let wanted = json!({ "subjects": ["a"], "max_msgs_per_subject": 1000 });
        let found = json!({ "subjects": ["a"], "max_msgs_per_subject": 10 });
        let error = difference("stream S", STREAM_KEYS, &wanted, &found).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stream S has other settings than this node needs: max_msgs_per_subject is 10, wanted \
             is 1000; if stream S belongs to another system, choose another store.nats.prefix; \
             else change it with the `nats` command, or remove it if nothing in it is needed"
        );
    }
}
