//! Content between the client's parts and ours.

use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::content::{Content, ContentPart, FileSource, Stored};

use super::chunk::harmless;
use crate::error::Problem;
use crate::input::content::PartBody;

/// The content of a user's message whose `parts` stand at `place`. Parts that are only the client's
/// own, such as `data-*`, are no content.
pub(crate) fn of_parts(parts: &[Value], place: &str) -> Result<Content, Problem> {
    let mut content = Content::new();
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let body = match part["type"].as_str() {
            Some("text") => json!({"type": "text", "text": part["text"]}),
            Some("file") => file(part, &place)?,
            Some(_) => continue,
            None => return Err(Problem::field(format!("{place}.type"), "it must be a text")),
        };
        let body = PartBody::deserialize(body)
            .map_err(|error| Problem::field(place.clone(), error.to_string()))?;
        content.push(Stored::Inline(body.into_part(&place)?));
    }
    if content.is_empty() {
        let rule = "the message has no text and no file";
        return Err(Problem::field(place, rule));
    }
    Ok(content)
}

fn file(part: &Value, place: &str) -> Result<Value, Problem> {
    let url = part["url"].as_str().unwrap_or_default();
    let source = match url.strip_prefix("data:") {
        None => json!({"kind": "url", "url": url}),
        Some(data) => {
            let (_, data) = data.split_once(";base64,").ok_or_else(|| {
                let rule = "a data address must be base64: `data:image/png;base64,...`";
                Problem::field(format!("{place}.url"), rule)
            })?;
            json!({"kind": "base64", "data": data})
        }
    };
    let mut file = json!({"type": "file", "media_type": part["mediaType"], "source": source});
    if let (Some(file), Value::String(name)) = (file.as_object_mut(), &part["filename"]) {
        file.insert("name".into(), json!(name));
    }
    Ok(file)
}

/// Content as the client's parts.
pub(crate) fn shown(content: &Content) -> Vec<Value> {
    content
        .iter()
        .map(|part| match part {
            Stored::Inline(part) => shown_part(part),
            Stored::Blob(blob) => {
                let text = format!("[{} bytes, too large to be shown]", blob.size_bytes);
                json!({"type": "text", "text": text})
            }
        })
        .collect()
}

fn shown_part(part: &ContentPart) -> Value {
    match part {
        ContentPart::Text { text } => json!({"type": "text", "text": text}),
        ContentPart::Json { value } => json!({"type": "text", "text": value.to_string()}),
        ContentPart::File {
            media_type,
            name,
            source,
        } => {
            let url = match source {
                FileSource::Url { url } => url.clone(),
                FileSource::Base64 { data } => format!("data:{media_type};base64,{data}"),
            };
            let mut file = json!({"type": "file", "mediaType": media_type, "url": url});
            if let (Some(file), Some(name)) = (file.as_object_mut(), name) {
                file.insert("filename".into(), json!(name));
            }
            file
        }
    }
}

/// The rich output of a tool.
pub(crate) fn output(parts: &[ContentPart]) -> Value {
    let value = |part: &ContentPart| match part {
        ContentPart::Json { value } => json!({"type": "json", "value": harmless(value.clone())}),
        ContentPart::Text { .. } | ContentPart::File { .. } => shown_part(part),
    };
    json!({"type": "content", "value": parts.iter().map(value).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_files_are_content_and_come_back() {
        let parts = [
            json!({"type": "text", "text": "look"}),
            json!({"type": "data-mood", "data": 1}),
            json!({"type": "file", "mediaType": "image/png", "filename": "a.png",
                "url": "data:image/png;base64,AAAA"}),
            json!({"type": "file", "mediaType": "image/png", "url": "https://a.example/b.png"}),
        ];
        let content = of_parts(&parts, "parts").unwrap();
        let [first, _, rest @ ..] = &parts;
        let expected: Vec<Value> = std::iter::once(first).chain(rest).cloned().collect();
        assert_eq!(shown(&content), expected);
    }

    #[test]
    fn what_says_nothing_is_refused() {
        for parts in [
            vec![],
            vec![json!({"type": "data-mood", "data": 1})],
            vec![json!({"text": "no type"})],
            vec![json!({"type": "text"})],
            vec![json!({"type": "file", "mediaType": "image/png", "url": "data:,plain"})],
            vec![json!({"type": "file", "mediaType": "image/png", "url": "file:///etc/passwd"})],
        ] {
            assert!(of_parts(&parts, "parts").is_err(), "{parts:?}");
        }
    }
}
