//! Text within a bound.

/// The text, or its beginning with a mark, in at most `bytes_max` bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    const MARK: &str = "...";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub(MARK.len()));
    format!("{}{MARK}", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_text_stays_within_its_bound_and_whole_characters() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "lo...");
        assert_eq!(cut("äöü", 5), "ä...");
        assert_eq!(cut(&"é".repeat(1_000), 400).len(), 399);
    }
}
