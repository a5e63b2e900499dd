//! The content of a message as clients write it: a text, or a list of parts.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use steadfast_core::content::{Content, ContentPart, FileSource, Stored};
use steadfast_core::limits::PARTS_PER_INPUT_MAX;
use utoipa::ToSchema;

use super::body::Object;
use crate::error::Problem;

/// What a message says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ContentBody {
    /// One text.
    Text(String),
    /// Several parts.
    Parts(Vec<PartBody>),
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MessagePart)]
pub(crate) struct PartBody {
    /// Which of the other fields count.
    #[serde(rename = "type")]
    kind: PartKind,
    /// Of a `text` part.
    text: Option<String>,
    /// Of a `json` part: any JSON.
    #[serde(default, deserialize_with = "any_value")]
    #[schema(value_type = Option<Object>)]
    value: Option<Value>,
    /// Of a `file` part: its media type, for example `image/png`.
    media_type: Option<String>,
    /// Of a `file` part: a name to show.
    name: Option<String>,
    /// Of a `file` part: where its bytes are.
    source: Option<SourceBody>,
}

/// Whether a part is text, JSON or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MessagePartType)]
pub(crate) enum PartKind {
    /// `text`
    Text,
    /// `value`
    Json,
    /// `media_type`, `name`, `source`
    File,
}

/// The bytes of a file part: an address, or the bytes themselves.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MessageFileSource)]
pub(crate) struct SourceBody {
    /// `url` or `base64`.
    kind: SourceKind,
    /// With `url`: an http or https address, fetched by the model's provider.
    url: Option<String>,
    /// With `base64`: standard alphabet, padded.
    data: Option<String>,
}

/// Where a file's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MessageFileSourceKind)]
pub(crate) enum SourceKind {
    /// On the web.
    Url,
    /// In `data`.
    Base64,
}

/// Keeps `null` apart from a field that is not there.
fn any_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl<'de> Deserialize<'de> for ContentBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrParts;

        impl<'de> Visitor<'de> for TextOrParts {
            type Value = ContentBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or an array of parts")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ContentBody, E> {
                Ok(ContentBody::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<ContentBody, E> {
                Ok(ContentBody::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<ContentBody, A::Error> {
                let mut read = Vec::new();
                while let Some(Object(part)) = parts.next_element::<Object<PartBody>>()? {
                    if read.len() == PARTS_PER_INPUT_MAX {
                        let rule = format!("at most {PARTS_PER_INPUT_MAX} parts are allowed");
                        return Err(A::Error::custom(rule));
                    }
                    read.push(part);
                }
                Ok(ContentBody::Parts(read))
            }
        }

        deserializer.deserialize_any(TextOrParts)
    }
}

impl ContentBody {
    /// Checks the content and gives it as sessions keep it.
    pub(crate) fn into_content(self) -> Result<Content, Problem> {
        match self {
            Self::Text(text) if text.is_empty() => Err(Problem::field("content", "it is empty")),
            Self::Text(text) => Ok(vec![Stored::Inline(ContentPart::Text { text })]),
            Self::Parts(parts) if parts.is_empty() => {
                Err(Problem::field("content", "it has no parts"))
            }
            Self::Parts(parts) => parts
                .into_iter()
                .enumerate()
                .map(|(index, part)| {
                    part.into_part(&format!("content[{index}]"))
                        .map(Stored::Inline)
                })
                .collect(),
        }
    }
}

impl PartBody {
    /// Checks one part that stands at `place`.
    pub(crate) fn into_part(self, place: &str) -> Result<ContentPart, Problem> {
        let at = |field: &str| format!("{place}.{field}");
        let given = [
            ("text", self.text.is_some(), self.kind == PartKind::Text),
            ("value", self.value.is_some(), self.kind == PartKind::Json),
            (
                "media_type",
                self.media_type.is_some(),
                self.kind == PartKind::File,
            ),
            ("name", self.name.is_some(), self.kind == PartKind::File),
            ("source", self.source.is_some(), self.kind == PartKind::File),
        ];
        for (field, is_given, belongs) in given {
            if is_given && !belongs {
                let detail = format!("a part of type `{}` has no such field", self.kind.name());
                return Err(Problem::field(at(field), detail));
            }
        }
        match self.kind {
            PartKind::Text => {
                let text = self.text.ok_or_else(|| Problem::missing(at("text")))?;
                Ok(ContentPart::Text { text })
            }
            PartKind::Json => {
                let value = self.value.ok_or_else(|| Problem::missing(at("value")))?;
                Ok(ContentPart::Json { value })
            }
            PartKind::File => {
                let media_type = self
                    .media_type
                    .ok_or_else(|| Problem::missing(at("media_type")))?;
                if !is_media_type(&media_type) {
                    let rule = "it must be a media type like `image/png`";
                    return Err(Problem::field(at("media_type"), rule));
                }
                if self.name.as_ref().is_some_and(|name| name.len() > 255) {
                    return Err(Problem::field(at("name"), "at most 255 bytes"));
                }
                let source = self.source.ok_or_else(|| Problem::missing(at("source")))?;
                Ok(ContentPart::File {
                    media_type,
                    name: self.name,
                    source: source.into_source(&at("source"))?,
                })
            }
        }
    }
}

impl PartKind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::File => "file",
        }
    }
}

impl SourceBody {
    fn into_source(self, place: &str) -> Result<FileSource, Problem> {
        let at = |field: &str| format!("{place}.{field}");
        match (self.kind, self.url, self.data) {
            (SourceKind::Url, Some(url), None) => {
                let web = url.starts_with("https://") || url.starts_with("http://");
                let plain = url.bytes().all(|byte| byte.is_ascii_graphic());
                if web && plain && url.len() <= 8 * 1024 {
                    Ok(FileSource::Url { url })
                } else {
                    let rule = "it must be an http or https address of at most 8192 characters";
                    Err(Problem::field(at("url"), rule))
                }
            }
            (SourceKind::Base64, None, Some(data)) => {
                if is_base64(data.as_bytes()) {
                    Ok(FileSource::Base64 { data })
                } else {
                    let rule = "it must be base64 of the standard alphabet, padded";
                    Err(Problem::field(at("data"), rule))
                }
            }
            (SourceKind::Url, _, Some(_)) => Err(Problem::field(
                at("data"),
                "a source of kind `url` has no such field",
            )),
            (SourceKind::Base64, Some(_), _) => Err(Problem::field(
                at("url"),
                "a source of kind `base64` has no such field",
            )),
            (SourceKind::Url, None, None) => Err(Problem::missing(at("url"))),
            (SourceKind::Base64, None, None) => Err(Problem::missing(at("data"))),
        }
    }
}

fn is_media_type(text: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    text.len() <= 255
        && text
            .split_once('/')
            .is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

fn is_base64(bytes: &[u8]) -> bool {
    let digits = match bytes {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] => digits,
        digits => digits,
    };
    bytes.len().is_multiple_of(4)
        && digits
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::body;
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Message {
        content: ContentBody,
    }

    fn read(content: &Value) -> Result<Content, String> {
        let bytes = json!({ "content": content }).to_string();
        body::parse::<Message>(bytes.as_bytes(), 64)
            .and_then(|message| message.content.into_content())
            .map_err(|problem| {
                let body = problem.body();
                format!("{} {}", body.code, body.detail)
            })
    }

    #[test]
    fn text_and_parts_are_content() {
        let text = |text: &str| Stored::Inline(ContentPart::Text { text: text.into() });
        assert_eq!(read(&json!("hello")), Ok(vec![text("hello")]));
        let parts = json!([
            {"type": "text", "text": "hello"},
            {"type": "json", "value": null},
            {"type": "file", "media_type": "image/png", "name": "a.png",
             "source": {"kind": "url", "url": "https://example.com/a.png"}},
            {"type": "file", "media_type": "text/plain",
             "source": {"kind": "base64", "data": "aGk="}},
        ]);
        let file = |media_type: &str, name: Option<&str>, source| {
            Stored::Inline(ContentPart::File {
                media_type: media_type.into(),
                name: name.map(Into::into),
                source,
            })
        };
        let url = "https://example.com/a.png".into();
        let expected = vec![
            text("hello"),
            Stored::Inline(ContentPart::Json { value: Value::Null }),
            file("image/png", Some("a.png"), FileSource::Url { url }),
            file(
                "text/plain",
                None,
                FileSource::Base64 {
                    data: "aGk=".into(),
                },
            ),
        ];
        assert_eq!(read(&parts), Ok(expected));
    }

    #[test]
    fn mistakes_in_parts_are_named_with_their_place() {
        let many = vec![json!({"type": "text", "text": "x"}); PARTS_PER_INPUT_MAX + 1];
        let shown: Vec<String> = [
            json!(""),
            json!([]),
            json!(7),
            json!(["text"]),
            json!([["text", "hello"]]),
            json!([{"type": "text"}]),
            json!([{"text": "x"}]),
            json!([{"type": "txt", "text": "x"}]),
            json!([{"type": "text", "text": "x", "value": 1}]),
            json!([{"type": "text", "txt": "x"}]),
            json!([{"type": "json"}]),
            json!([{"type": "file", "media_type": "image/png"}]),
            json!([{"type": "file", "media_type": "png", "source": {"kind": "url", "url": "https://a"}}]),
            json!([{"type": "file", "media_type": "a/b", "source": {"kind": "url", "url": "file:///etc/passwd"}}]),
            json!([{"type": "file", "media_type": "a/b", "source": {"kind": "url"}}]),
            json!([{"type": "file", "media_type": "a/b", "source": {"kind": "base64", "data": "a"}}]),
            json!([{"type": "file", "media_type": "a/b", "source": {"kind": "base64", "url": "https://a"}}]),
            json!(many),
        ]
        .iter()
        .map(|content| format!("{:?}", read(content)))
        .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        Err("field_invalid `content`: it is empty")
        Err("field_invalid `content`: it has no parts")
        Err("field_invalid `content`: invalid type: integer `7`, expected a text or an array of parts")
        Err("field_invalid `content[0]`: invalid type: string \"text\", expected a JSON object")
        Err("field_invalid `content[0]`: invalid type: sequence, expected a JSON object")
        Err("field_missing `content[0].text` is missing")
        Err("field_missing `content[0].type` is missing")
        Err("field_invalid `content[0].type`: unknown variant `txt`, expected one of `text`, `json`, `file`")
        Err("field_invalid `content[0].value`: a part of type `text` has no such field")
        Err("field_unknown `content[0].txt` is not known here; did you mean `text`?")
        Err("field_missing `content[0].value` is missing")
        Err("field_missing `content[0].source` is missing")
        Err("field_invalid `content[0].media_type`: it must be a media type like `image/png`")
        Err("field_invalid `content[0].source.url`: it must be an http or https address of at most 8192 characters")
        Err("field_missing `content[0].source.url` is missing")
        Err("field_invalid `content[0].source.data`: it must be base64 of the standard alphabet, padded")
        Err("field_invalid `content[0].source.url`: a source of kind `base64` has no such field")
        Err("field_invalid `content`: at most 256 parts are allowed")
        "#);
    }

    #[test]
    fn base64_is_checked() {
        for (text, valid) in [
            ("", true),
            ("aGk=", true),
            ("YQ==", true),
            ("YWJj", true),
            ("YQ=", false),
            ("=YQ=", false),
            ("Y===", false),
            ("YW-_", false),
            ("YWJjZ", false),
        ] {
            assert_eq!(is_base64(text.as_bytes()), valid, "{text}");
        }
    }
}
