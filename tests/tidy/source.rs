//! Checks of Rust text.

use crate::words::has_word;

/// Lines of code in one file, at most.
const CODE_LINES_MAX: usize = 400;

/// What has no place in the core.
const IMPURE: [&str; 12] = [
    "HashMap",
    "HashSet",
    "Instant",
    "SystemTime",
    "async",
    "rand",
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::thread",
    "tokio",
];

/// The text before a test module that ends the file.
fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_test_module = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    let end = lines.windows(2).position(is_test_module);
    let end = end.unwrap_or(lines.len());
    lines
        .into_iter()
        .take(end)
        .enumerate()
        .map(|(at, line)| (at + 1, line))
}

/// A line without its comment. A `//` within a text literal ends the line too early, which no rule
/// here minds.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default().trim()
}

/// Whether a crate's file holds nothing but tests.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.starts_with("crates/") && (path.ends_with("/tests.rs") || path.contains("/tests/"))
}

/// A file that is too long.
pub(crate) fn length_finding(path: &str, text: &str) -> Option<String> {
    let lines = without_tests(text).filter(|(_, line)| !code(line).is_empty());
    let lines = lines.count();
    (lines > CODE_LINES_MAX).then(|| format!("{path}: {lines} lines"))
}

/// Words that a pure module does not need.
pub(crate) fn impurity_findings(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in without_tests(text) {
        let words = code(line);
        for impure in IMPURE {
            if has_word(words, impure) {
                findings.push(format!("{path}:{number}: {impure}"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_four_hundred_lines_passes_and_one_more_does_not() {
        let lines = "let a = 1;\n".repeat(400);
        assert_eq!(length_finding("a.rs", &lines), None);
        let longer = format!("{lines}let b = 2;\n");
        assert_eq!(
            length_finding("a.rs", &longer),
            Some("a.rs: 401 lines".to_owned())
        );
    }

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let code = "let a = 1;\n".repeat(400);
        let tests = "let b = 1;\n".repeat(400);
        let text = format!("//! Head.\n\n{code}// why\n#[cfg(test)]\nmod tests {{\n{tests}}}\n");
        assert_eq!(length_finding("a.rs", &text), None);
    }

    #[test]
    fn a_test_only_item_does_not_end_the_count() {
        let code = "let a = 1;\n".repeat(400);
        let text = format!("#[cfg(test)]\nfn a() {{}}\n{code}");
        assert_eq!(
            length_finding("a.rs", &text),
            Some("a.rs: 402 lines".to_owned())
        );
    }

    #[test]
    fn only_a_crates_own_test_files_may_be_long() {
        assert!(is_test_file("crates/tools/src/catalog/tests.rs"));
        assert!(is_test_file("crates/store/tests/memory.rs"));
        assert!(!is_test_file("crates/store/src/suite/log.rs"));
        assert!(!is_test_file("tests/src/ledger.rs"));
    }

    #[test]
    fn a_clock_in_the_core_is_found() {
        let text = "// no Instant here\nuse std::time::Instant;\nlet operand = Instants;\n";
        assert_eq!(impurity_findings("a.rs", text), ["a.rs:2: Instant"]);
    }
}
