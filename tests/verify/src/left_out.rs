//! Tests that could not run because something outside could not be had. Each says so by a line
//! `<what>: <why>` in a file; none is left out silently.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file of one run, and what it may hold in CI.
pub(crate) struct LeftOut {
    file: PathBuf,
    expected: Vec<String>,
}

impl LeftOut {
    /// Starts with an empty file.
    pub(crate) fn begin(root: &Path) -> Result<Self, String> {
        let name = format!("steadfast-left-out-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        fs::write(&file, "").map_err(|error| format!("write {}: {error}", file.display()))?;
        let list = root.join("tests/left-out-expected.txt");
        let text = fs::read_to_string(&list)
            .map_err(|error| format!("read {}: {error}", list.display()))?;
        let expected = parse_expected(&text);
        Ok(Self { file, expected })
    }

    /// Where tests add their lines.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Prints what was left out; whether that is acceptable.
    pub(crate) fn report(self, ci: bool) -> Result<bool, String> {
        let text = fs::read_to_string(&self.file)
            .map_err(|error| format!("read {}: {error}", self.file.display()))?;
        let left_out = parse(&text);
        let mut acceptable = true;
        for (what, why) in &left_out {
            let expected = self.expected.contains(what);
            acceptable &= expected || !ci;
            let mark = if expected { ", as expected" } else { "" };
            println!("LEFT OUT{mark}: {what}: {why}");
        }
        if !acceptable {
            println!(
                "in CI nothing may be left out that tests/left-out-expected.txt does not name"
            );
        }
        Ok(acceptable)
    }
}

impl Drop for LeftOut {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.file) {
            eprintln!("verify: remove {}: {error}", self.file.display());
        }
    }
}

fn parse_expected(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .map(String::from)
        .collect()
}

fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| match line.split_once(": ") {
            Some((what, why)) => (what.to_owned(), why.to_owned()),
            None => (line.to_owned(), "no reason given".to_owned()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(lines: &str, expected: &[&str]) -> LeftOut {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed").replace(':', "-");
        let file = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::write(&file, lines).unwrap();
        let expected = expected.iter().map(|&what| what.to_owned()).collect();
        LeftOut { file, expected }
    }

    #[test]
    fn a_test_left_out_fails_ci_unless_expected() {
        assert_eq!(left_out("chat: no node\n", &[]).report(true), Ok(false));
        assert_eq!(
            left_out("chat: no node\n", &["chat"]).report(true),
            Ok(true)
        );
    }

    #[test]
    fn a_test_left_out_on_a_desk_is_only_named() {
        assert_eq!(left_out("chat: no node\n", &[]).report(false), Ok(true));
    }

    #[test]
    fn a_line_without_reason_counts_too() {
        assert_eq!(left_out("chat\n", &[]).report(true), Ok(false));
    }

    #[test]
    fn expected_list_has_comments() {
        let text = "# why\n\nchat # no node on the machine\ncluster\n";
        assert_eq!(parse_expected(text), ["chat", "cluster"]);
    }
}
