//! What an MCP server answers, as the transcript keeps it.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use steadfast_core::content::{CallOutput, ContentPart, FileSource, ToolOutput};

/// The output of a call. Structured content is the output, if there is any, and the parts that were
/// meant for a model are what the model sees of it unless they say nothing more.
pub(super) fn output(result: CallToolResult) -> CallOutput {
    let is_error = result.is_error.unwrap_or(false);
    let parts: Vec<ContentPart> = result.content.into_iter().filter_map(part).collect();
    let Some(value) = result.structured_content else {
        return said(parts, is_error).into();
    };
    if is_error {
        return ToolOutput::ErrorJson { value }.into();
    }
    let says_more = parts.iter().any(|part| match part {
        ContentPart::Text { text } => {
            serde_json::from_str::<Value>(text).ok().as_ref() != Some(&value)
        }
        ContentPart::Json { .. } | ContentPart::File { .. } => true,
    });
    let mut output = CallOutput::from(ToolOutput::Json { value });
    if says_more {
        output.model_view = Some(Box::new(said(parts, false)));
    }
    output
}

/// Text if all is text, else the parts.
fn said(parts: Vec<ContentPart>, is_error: bool) -> ToolOutput {
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            ContentPart::Text { text } => Some(text.as_str()),
            ContentPart::Json { .. } | ContentPart::File { .. } => None,
        })
        .collect();
    match (texts, is_error) {
        (Some(texts), false) => ToolOutput::text(texts.join("\n")),
        (Some(texts), true) if texts.is_empty() => {
            ToolOutput::error("the tool says that it failed, and nothing more")
        }
        (Some(texts), true) => ToolOutput::error(texts.join("\n")),
        (None, false) => ToolOutput::Content { parts },
        (None, true) => {
            let value = serde_json::to_value(parts).unwrap_or_default();
            ToolOutput::ErrorJson { value }
        }
    }
}

fn part(block: ContentBlock) -> Option<ContentPart> {
    let file = |media_type: String, name: Option<String>, data: String| ContentPart::File {
        media_type,
        name,
        source: FileSource::Base64 { data },
    };
    Some(match block {
        ContentBlock::Text(text) => ContentPart::Text { text: text.text },
        ContentBlock::Image(image) => file(image.mime_type, None, image.data),
        ContentBlock::Audio(audio) => file(audio.mime_type, None, audio.data),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => ContentPart::Text {
                text: format!("{uri}:\n{text}"),
            },
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                let media_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                file(media_type, Some(uri), blob)
            }
            _ => return unknown(),
        },
        ContentBlock::ResourceLink(link) => ContentPart::Json {
            value: serde_json::to_value(link).unwrap_or_default(),
        },
        _ => return unknown(),
    })
}

fn unknown() -> Option<ContentPart> {
    tracing::warn!("a part of a result is of a kind that is not known, and is left out");
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(result: Value) -> CallOutput {
        output(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn text_json_files_and_errors_are_kept_apart() {
        let text = json!({ "type": "text", "text": "a" });
        assert_eq!(
            of(json!({ "content": [text, text] })),
            ToolOutput::text("a\na").into()
        );
        assert_eq!(
            of(json!({ "content": [text], "isError": true })),
            ToolOutput::error("a").into()
        );
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
        let picture = ContentPart::File {
            media_type: "image/png".into(),
            name: None,
            source: FileSource::Base64 {
                data: "AA==".into(),
            },
        };
        let both = vec![ContentPart::Text { text: "a".into() }, picture];
        assert_eq!(
            of(json!({ "content": [text, image] })),
            ToolOutput::Content { parts: both }.into()
        );
        let same = json!({ "type": "text", "text": "{\"a\":1}" });
        let value = json!({ "a": 1 });
        assert_eq!(
            of(json!({ "content": [same], "structuredContent": value })),
            ToolOutput::Json {
                value: value.clone()
            }
            .into()
        );
        let more = of(json!({ "content": [text], "structuredContent": value }));
        assert_eq!(more.model_view, Some(Box::new(ToolOutput::text("a"))));
        assert_eq!(
            of(json!({ "content": [], "structuredContent": value, "isError": true })),
            ToolOutput::ErrorJson { value }.into()
        );
    }
}
