//! How tools outside of this process say their results as JSON.

use serde::Deserialize;
use serde_json::Value;
use steadfast_core::content::{CallOutput, ToolOutput};
use steadfast_core::input::CheckAnswer;

use crate::catalog::add_note;

/// A result with what belongs to it: `application/vnd.steadfast.result+json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    #[serde(default)]
    output: Value,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    documents: Vec<Value>,
}

/// The answer of a check.
#[derive(Debug, Deserialize)]
struct CheckReply {
    state: CheckState,
    #[serde(default)]
    result: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CheckState {
    Done,
    NotDone,
    Unknown,
}

/// The output that an envelope holds.
pub(crate) fn from_envelope(value: Value) -> Result<CallOutput, String> {
    // An array would be read as the fields in their order.
    if !value.is_object() {
        return Err("not an object".to_owned());
    }
    let envelope: Envelope = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let Envelope {
        output,
        is_error,
        documents,
    } = envelope;
    Ok(output_of(output, is_error, &documents))
}

/// The output that a tool outside says in JSON: a string is text, anything else is JSON.
pub(crate) fn output_of(output: Value, is_error: bool, documents: &[Value]) -> CallOutput {
    let output = match (output, is_error) {
        (Value::String(text), false) => ToolOutput::Text { text },
        (Value::String(text), true) => ToolOutput::ErrorText { text },
        (value, false) => ToolOutput::Json { value },
        (value, true) => ToolOutput::ErrorJson { value },
    };
    let mut output = CallOutput::from(output);
    if !documents.is_empty() {
        let note = "the tool's document edits were dropped: this agent has no documents";
        add_note(&mut output.note, note);
    }
    output
}

/// What a check said; anything that is not understood is no answer. `result` is the tool's output
/// itself, or an envelope.
pub(crate) fn check_answer(body: &[u8], enveloped: bool) -> CheckAnswer {
    let reply: CheckReply = match serde_json::from_slice(body) {
        Ok(reply) => reply,
        Err(error) => {
            tracing::warn!(%error, "a check gave no answer that is understood");
            return CheckAnswer::Unknown;
        }
    };
    match (reply.state, reply.result) {
        (CheckState::NotDone, _) => CheckAnswer::NotDone,
        (CheckState::Unknown, _) => CheckAnswer::Unknown,
        (CheckState::Done, None) => {
            let text = "it was done; the tool kept no result";
            CheckAnswer::Done(ToolOutput::text(text).into())
        }
        (CheckState::Done, Some(result)) if enveloped => match from_envelope(result) {
            Ok(output) => CheckAnswer::Done(output),
            Err(error) => {
                tracing::warn!(%error, "a check's result is not an envelope");
                CheckAnswer::Unknown
            }
        },
        (CheckState::Done, Some(Value::String(text))) => {
            CheckAnswer::Done(ToolOutput::Text { text }.into())
        }
        (CheckState::Done, Some(value)) => CheckAnswer::Done(ToolOutput::Json { value }.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_envelope_says_result_error_and_edits() {
        let output = |value| from_envelope(value).unwrap();
        assert_eq!(
            output(json!({ "output": "a" })),
            ToolOutput::text("a").into()
        );
        assert_eq!(
            output(json!({ "output": "a", "is_error": true, "documents": [] })),
            ToolOutput::error("a").into()
        );
        assert_eq!(
            output(json!({ "output": { "a": 1 }, "is_error": true })),
            ToolOutput::ErrorJson {
                value: json!({ "a": 1 })
            }
            .into()
        );
        let edited = output(json!({ "output": 1, "documents": [{ "kind": "cart" }] }));
        assert_eq!(
            edited.note.as_deref(),
            Some("the tool's document edits were dropped: this agent has no documents")
        );
        for value in [
            json!([]),
            json!("x"),
            json!({ "outptu": 1 }),
            json!({ "is_error": 1 }),
        ] {
            assert!(
                from_envelope(value.clone()).is_err(),
                "{value} was understood"
            );
        }
    }

    #[test]
    fn a_check_that_is_not_understood_is_no_answer() {
        let answer = |body: &str, enveloped| check_answer(body.as_bytes(), enveloped);
        let done = |output: ToolOutput| CheckAnswer::Done(output.into());
        let cases = [
            (r#"{"state":"not_done"}"#, false, CheckAnswer::NotDone),
            (
                r#"{"state":"unknown","result":1}"#,
                false,
                CheckAnswer::Unknown,
            ),
            (
                r#"{"state":"done","result":"a"}"#,
                false,
                done(ToolOutput::text("a")),
            ),
            (
                r#"{"state":"done","result":{"a":1}}"#,
                false,
                done(json!({ "a": 1 }).into()),
            ),
            (
                r#"{"state":"done"}"#,
                false,
                done(ToolOutput::text("it was done; the tool kept no result")),
            ),
            (
                r#"{"state":"done","result":{"output":"a","is_error":true}}"#,
                true,
                done(ToolOutput::error("a")),
            ),
            (r#"{"state":"done","result":3}"#, true, CheckAnswer::Unknown),
            (r#"{"state":"DONE"}"#, false, CheckAnswer::Unknown),
            ("{}", false, CheckAnswer::Unknown),
            ("", false, CheckAnswer::Unknown),
            ("<html>", false, CheckAnswer::Unknown),
        ];
        for (body, enveloped, expected) in cases {
            assert_eq!(answer(body, enveloped), expected, "{body}");
        }
    }
}
