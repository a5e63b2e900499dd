//! Words that have no place in the tree. They are put together here, so that this file is clean.

/// Marks of unfinished work, as halves.
const UNFINISHED: [(&str, &str); 7] = [
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("HA", "CK"),
    ("unimplement", "ed!"),
    ("to", "do!"),
    ("dbg", "!("),
];

/// Hosts of package registries, as halves.
const REGISTRIES: [(&str, &str); 5] = [
    ("crates", ".io"),
    ("npmjs", ".org"),
    ("npmjs", ".com"),
    ("pypi", ".org"),
    ("pythonhosted", ".org"),
];

/// Attributes that keep a test from running or from saying what it expects, as halves.
const TEST_ATTRIBUTES: [(&str, &str); 2] = [("#[ign", "ore"), ("should_", "panic")];

fn findings(
    path: &str,
    text: &str,
    words: &[(&str, &str)],
    occurs: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (start, end) in words {
            let word = format!("{start}{end}");
            if occurs(line, &word) {
                found.push(format!("{path}:{}: {word}", number + 1));
            }
        }
    }
    found
}

fn has_text(text: &str, word: &str) -> bool {
    text.contains(word)
}

/// Whether a text has this word, not only within a longer one.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Marks of unfinished work.
pub(crate) fn unfinished_findings(path: &str, text: &str) -> Vec<String> {
    let words = &UNFINISHED;
    let mut found = findings(path, text, &words[..6], has_word);
    found.extend(findings(path, text, &words[6..], has_text));
    found
}

/// Hosts of package registries.
pub(crate) fn registry_findings(path: &str, text: &str) -> Vec<String> {
    findings(path, text, &REGISTRIES, has_text)
}

/// Tests that do not run.
pub(crate) fn test_attribute_findings(path: &str, text: &str) -> Vec<String> {
    findings(path, text, &TEST_ATTRIBUTES, has_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(words: &[(&str, &str)]) -> Vec<String> {
        let joined = words.iter().map(|(start, end)| format!("{start}{end}"));
        joined.collect()
    }

    #[test]
    fn each_mark_of_unfinished_work_is_found() {
        for word in join(&UNFINISHED) {
            let text = format!("fine\n    // {word} later\n");
            let found = unfinished_findings("a.rs", &text);
            assert_eq!(found, [format!("a.rs:2: {word}")]);
        }
    }

    #[test]
    fn a_mark_within_a_longer_word_is_not_one() {
        let word = format!("{}S", join(&UNFINISHED)[0]);
        assert!(unfinished_findings("a.rs", &word).is_empty());
    }

    #[test]
    fn each_registry_is_found() {
        for word in join(&REGISTRIES) {
            let text = format!("see https://www.{word}/x");
            assert_eq!(registry_findings("a", &text), [format!("a:1: {word}")]);
        }
    }

    #[test]
    fn each_attribute_is_found() {
        for word in join(&TEST_ATTRIBUTES) {
            let text = format!("{word}]");
            assert_eq!(
                test_attribute_findings("a.rs", &text),
                [format!("a.rs:1: {word}")]
            );
        }
    }
}
