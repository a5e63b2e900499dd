//! Content in the plain pieces that each wire turns into its own blocks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use steadfast_core::content::{CallInput, ContentPart, FileSource, ReplyPart, ToolOutput};

/// A piece of content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece<'a> {
    /// Text; never blank.
    Text(String),
    /// A file or image.
    File(File<'a>),
}

/// A file or image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct File<'a> {
    pub(crate) media_type: &'a str,
    pub(crate) name: Option<&'a str>,
    pub(crate) source: &'a FileSource,
}

impl File<'_> {
    /// Whether it is an image that models see.
    pub(crate) fn is_image(&self) -> bool {
        matches!(
            self.media_type,
            "image/png" | "image/jpeg" | "image/jpg" | "image/gif" | "image/webp"
        )
    }

    /// Whether it is a PDF.
    pub(crate) fn is_pdf(&self) -> bool {
        self.media_type == "application/pdf"
    }

    /// Its address, or its bytes as an address.
    pub(crate) fn url(&self) -> String {
        match self.source {
            FileSource::Url { url } => url.clone(),
            FileSource::Base64 { data } => format!("data:{};base64,{data}", self.media_type),
        }
    }

    /// In words, for a model that cannot be shown it: the text of a text file, else what it is.
    pub(crate) fn words(&self) -> String {
        let name = self.name.unwrap_or("without name");
        let kind = self.media_type;
        match self.source {
            FileSource::Url { url } => format!("[file {name}, {kind}, at {url}]"),
            FileSource::Base64 { data } => match self.is_text().then(|| decode(data)).flatten() {
                Some(text) => format!("[file {name}, {kind}]\n{text}"),
                None => format!("[file {name}, {kind}, which cannot be shown here]"),
            },
        }
    }

    fn is_text(&self) -> bool {
        self.media_type.starts_with("text/")
            || matches!(
                self.media_type,
                "application/json" | "application/xml" | "application/yaml" | "application/toml"
            )
    }
}

fn decode(data: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(data).ok()?).ok()
}

/// The pieces of a message; blank text is left out.
pub(crate) fn content(parts: &[ContentPart]) -> Vec<Piece<'_>> {
    parts
        .iter()
        .filter_map(|part| match part {
            ContentPart::Text { text } => text_piece(text.clone()),
            ContentPart::Json { value } => text_piece(value.to_string()),
            ContentPart::File {
                media_type,
                name,
                source,
            } => Some(Piece::File(File {
                media_type,
                name: name.as_deref(),
                source,
            })),
        })
        .collect()
}

/// The pieces of a tool's output with the remark beside it; at least one.
pub(crate) fn output<'a>(output: &'a ToolOutput, note: Option<&str>) -> Vec<Piece<'a>> {
    let mut pieces = match output {
        ToolOutput::Text { text } | ToolOutput::ErrorText { text } => {
            text_piece(text.clone()).into_iter().collect()
        }
        ToolOutput::Json { value } | ToolOutput::ErrorJson { value } => {
            vec![Piece::Text(value.to_string())]
        }
        ToolOutput::Content { parts } => content(parts),
        ToolOutput::ExecutionDenied { reason } => {
            let mut text = "The call was not allowed to run.".to_owned();
            if let Some(reason) = reason {
                text.push_str(" Reason: ");
                text.push_str(reason);
            }
            vec![Piece::Text(text)]
        }
    };
    if pieces.is_empty() {
        pieces.push(Piece::Text("(no output)".to_owned()));
    }
    if let Some(note) = note.filter(|note| !note.trim().is_empty()) {
        pieces.push(Piece::Text(format!("[Note: {note}]")));
    }
    pieces
}

fn text_piece<'a>(text: String) -> Option<Piece<'a>> {
    (!text.trim().is_empty()).then_some(Piece::Text(text))
}

/// The texts of a reply as one: pieces that follow one another belong together, others are apart.
pub(crate) fn joined_text<'a>(parts: impl Iterator<Item = &'a ReplyPart>) -> String {
    let mut joined = String::new();
    let mut apart = false;
    for part in parts {
        match part {
            ReplyPart::Text { text, .. } => {
                if apart && !joined.is_empty() && !text.is_empty() {
                    joined.push_str("\n\n");
                }
                joined.push_str(text);
                apart = false;
            }
            _ => apart = true,
        }
    }
    joined
}

/// Arguments as the object that providers want to read back.
pub(crate) fn arguments(input: &CallInput) -> Map<String, Value> {
    let wrapped = match input {
        CallInput::Json(Value::Object(object)) => return object.clone(),
        CallInput::Json(value) => json!({ "value": value }),
        CallInput::Malformed { text, .. } => json!({ "malformed_arguments": text }),
    };
    match wrapped {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_file_is_given_as_text_and_any_other_by_its_name() {
        let source = FileSource::Base64 {
            data: "aMOk".into(),
        };
        let file = |media_type| File {
            media_type,
            name: Some("a.txt"),
            source: &source,
        };
        assert_eq!(file("text/plain").words(), "[file a.txt, text/plain]\nhä");
        assert_eq!(
            file("audio/wav").words(),
            "[file a.txt, audio/wav, which cannot be shown here]"
        );
    }

    #[test]
    fn an_output_is_never_empty_and_keeps_its_note() {
        assert_eq!(
            output(&ToolOutput::text(" "), Some("late")),
            [
                Piece::Text("(no output)".into()),
                Piece::Text("[Note: late]".into())
            ]
        );
    }
}
