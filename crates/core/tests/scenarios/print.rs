//! Short texts for events, outputs and verdicts.

use serde_json::Value;
use steadfast_core::content::{CallOutput, Stored};
use steadfast_core::event::{Event, Verdict};

pub(crate) fn shown(output: &CallOutput) -> String {
    match &output.output {
        Stored::Inline(output) => serde_json::to_string(output).unwrap(),
        Stored::Blob(blob) => format!("blob of {}", blob.size_bytes),
    }
}

pub(crate) fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Accepted { turn } => format!("accepted as turn {turn}"),
        Verdict::Done => "done".into(),
        Verdict::Rejected { reason } => format!("rejected: {}", reason.code()),
    }
}

/// An event without what would only make the line long.
pub(crate) fn line(event: &Event) -> String {
    const LONG: [&str; 12] = [
        "policy",
        "triage",
        "content",
        "options",
        "parts",
        "usage",
        "wire",
        "model",
        "digest",
        "input_digest",
        "deadline",
        "new",
    ];
    let Value::Object(fields) = serde_json::to_value(event).unwrap() else {
        unreachable!()
    };
    let name = fields["type"].as_str().unwrap().to_owned();
    let short = |(key, value): (&String, &Value)| {
        let value = match (key.as_str(), value) {
            ("calls", Value::Array(calls)) => {
                let tools: Vec<_> = calls
                    .iter()
                    .map(|call| call["tool"].as_str().unwrap())
                    .collect();
                tools.join("+")
            }
            ("output", output) => output["output"]["inline"]["type"].to_string(),
            (_, Value::String(text)) => text.clone(),
            (_, value) => value.to_string(),
        };
        format!(" {key}={}", value.replace('"', ""))
    };
    let kept = fields
        .iter()
        .filter(|(key, _)| *key != "type" && !LONG.contains(&key.as_str()));
    name + &kept.map(short).collect::<String>()
}
