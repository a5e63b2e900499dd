//! What people, models and tools say.

use serde_json::json;
use steadfast_core::content::{
    BlobHash, BlobRef, CallInput, CallOutput, Content, ContentPart, FileSource, ReplyPart, Stored,
    ToolOutput, Usage,
};
use steadfast_core::input::{CallTriage, Gate, InDoubtPolicy, Place, ReplayRule};

pub(crate) fn blob() -> BlobRef {
    BlobRef {
        hash: BlobHash::of(b"a large thing"),
        size_bytes: 70_000,
    }
}

pub(crate) fn usage() -> Usage {
    Usage {
        input_tokens: 1_200,
        output_tokens: 80,
        cache_read_tokens: 1_000,
        cache_write_tokens: 128,
        reasoning_tokens: 32,
    }
}

/// JSON of every kind.
pub(crate) fn json_values() -> serde_json::Value {
    json!({
        "null": null, "yes": true, "no": false, "small": 7, "negative": -3, "large": u64::MAX,
        "low": i64::MIN, "half": 0.5, "text": "grüße, 世界", "empty": "", "list": [1, [], {}],
    })
}

pub(crate) fn parts() -> Vec<ContentPart> {
    vec![
        ContentPart::Text {
            text: "hello".into(),
        },
        ContentPart::Json {
            value: json_values(),
        },
        ContentPart::File {
            media_type: "image/png".into(),
            name: Some("map.png".into()),
            source: FileSource::Url {
                url: "https://example.com/map.png".into(),
            },
        },
        ContentPart::File {
            media_type: "application/pdf".into(),
            name: None,
            source: FileSource::Base64 {
                data: "JVBERi0=".into(),
            },
        },
    ]
}

pub(crate) fn content() -> Content {
    let mut content: Content = parts().into_iter().map(Stored::Inline).collect();
    content.push(Stored::Blob(blob()));
    content
}

pub(crate) fn outputs() -> Vec<CallOutput> {
    let whole = [
        ToolOutput::text("12 degrees"),
        ToolOutput::Json {
            value: json_values(),
        },
        ToolOutput::error("no such city"),
        ToolOutput::ErrorJson {
            value: json!({"code": 7}),
        },
        ToolOutput::Content { parts: parts() },
        ToolOutput::ExecutionDenied { reason: None },
        ToolOutput::ExecutionDenied {
            reason: Some("not today".into()),
        },
    ];
    let mut outputs: Vec<CallOutput> = whole.into_iter().map(CallOutput::from).collect();
    outputs.push(CallOutput {
        output: Stored::Blob(blob()),
        model_view: Some(Box::new(ToolOutput::text("the first lines"))),
        note: Some("the document was not changed".into()),
    });
    outputs
}

pub(crate) fn reply_parts() -> Vec<Stored<ReplyPart>> {
    let native = Some(json!({"id": "rs_1", "signature": "c2ln"}));
    let parts = [
        ReplyPart::Text {
            text: "Let me look.".into(),
            native: None,
        },
        ReplyPart::Text {
            text: String::new(),
            native: native.clone(),
        },
        ReplyPart::Reasoning {
            text: "The user wants".into(),
            native: native.clone(),
        },
        ReplyPart::Call {
            index: 1,
            native: native.clone(),
        },
        ReplyPart::ProviderTool {
            id: "ws_1".into(),
            name: "web_search".into(),
            input: json!({"query": "weather"}),
            output: Some(json!([{"title": "Weather"}])),
            native,
        },
        ReplyPart::Opaque {
            native: json!({"type": "redacted_thinking", "data": "AAEC"}),
        },
    ];
    let mut parts: Vec<_> = parts.into_iter().map(Stored::Inline).collect();
    parts.push(Stored::Blob(blob()));
    parts
}

pub(crate) fn inputs() -> Vec<Stored<CallInput>> {
    vec![
        Stored::Inline(CallInput::Json(json!({"city": "Oslo"}))),
        Stored::Inline(CallInput::Malformed {
            text: "{\"city\": ".into(),
            error: "EOF while parsing a value".into(),
        }),
        Stored::Blob(blob()),
    ]
}

/// Triages that take every value of every field.
pub(crate) fn triages() -> Vec<CallTriage> {
    let open = CallTriage {
        gate: Gate::Open,
        rule: ReplayRule::Safe,
        place: Place::Local,
        in_doubt: InDoubtPolicy::TellModel,
        has_check: false,
        exclusive: false,
        deadline_ms: 600_000,
        attempts_max: 3,
        slot: true,
        agent: None,
    };
    vec![
        CallTriage {
            gate: Gate::Approval {
                expires_in_ms: Some(60_000),
            },
            rule: ReplayRule::Keyed,
            place: Place::Remote,
            in_doubt: InDoubtPolicy::Wait,
            ..open.clone()
        },
        CallTriage {
            gate: Gate::Approval {
                expires_in_ms: None,
            },
            rule: ReplayRule::Never,
            place: Place::Client,
            has_check: true,
            exclusive: true,
            slot: false,
            ..open.clone()
        },
        CallTriage {
            gate: Gate::Refused {
                output: ToolOutput::error("unknown tool"),
            },
            ..open.clone()
        },
        open,
    ]
}
