//! Replies of very many text blocks: a provider that cites its sources begins a new block at each
//! citation. Runs of them are kept as one part each, and taken apart again for the next request.

use serde_json::{Value, json};
use steadfast_core::content::ReplyPart;

/// Joins runs of text if there are more parts than this.
pub(super) fn fold(parts: Vec<ReplyPart>, parts_max: usize) -> Vec<ReplyPart> {
    if parts.len() <= parts_max {
        return parts;
    }
    let mut folded = Vec::new();
    let mut run: Vec<(String, Option<Value>)> = Vec::new();
    for part in parts {
        match part {
            ReplyPart::Text { text, native } => run.push((text, native)),
            other => {
                folded.extend(close(&mut run));
                folded.push(other);
            }
        }
    }
    folded.extend(close(&mut run));
    folded
}

fn close(run: &mut Vec<(String, Option<Value>)>) -> Option<ReplyPart> {
    let blocks: Vec<Value> = run
        .iter()
        .map(|(text, rest)| json!({"bytes": text.len(), "rest": rest}))
        .collect();
    let text: String = run.drain(..).map(|(text, _)| text).collect();
    (!blocks.is_empty()).then(|| ReplyPart::Text {
        text,
        native: Some(json!({ "blocks": blocks })),
    })
}

/// The texts of a part with the rest of each one's block.
pub(super) fn unfold<'a>(
    text: &'a str,
    native: Option<&'a Value>,
) -> Vec<(&'a str, Option<&'a Value>)> {
    let Some(Value::Array(blocks)) = native.and_then(|native| native.get("blocks")) else {
        return vec![(text, native)];
    };
    let mut left = text;
    let mut pieces = Vec::with_capacity(blocks.len());
    for block in blocks {
        let bytes = block.get("bytes").and_then(Value::as_u64).unwrap_or(0);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let Some((piece, rest)) = left.split_at_checked(bytes) else {
            break;
        };
        pieces.push((piece, block.get("rest").filter(|rest| !rest.is_null())));
        left = rest;
    }
    if !left.is_empty() {
        pieces.push((left, None));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_folded_unfolds_to_the_same() {
        let text = |text: &str, native: Option<Value>| ReplyPart::Text {
            text: text.into(),
            native,
        };
        let cited = json!({"citations": [1]});
        let opaque = ReplyPart::Opaque { native: json!({}) };
        let parts = vec![
            text("aä", None),
            text("b", Some(cited.clone())),
            opaque.clone(),
            text("c", None),
        ];
        assert_eq!(fold(parts.clone(), 4), parts);
        let folded = fold(parts, 3);
        assert_eq!(folded.len(), 3);
        assert_eq!(folded[1], opaque);
        let ReplyPart::Text { text, native } = &folded[0] else {
            panic!("{folded:?}");
        };
        assert_eq!(text, "aäb");
        assert_eq!(
            unfold(text, native.as_ref()),
            [("aä", None), ("b", Some(&cited))]
        );
        assert_eq!(unfold("x", None), [("x", None)]);
    }
}
