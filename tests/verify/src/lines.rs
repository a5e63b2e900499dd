//! Lines of Rust: code, and tests, in each package. Blank lines and comments do not count.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Counted lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lines {
    code: usize,
    tests: usize,
}

/// Prints the table.
pub(crate) fn print(root: &Path) -> Result<bool, String> {
    let mut packages = BTreeMap::new();
    for top in ["crates", "tests", "benches"] {
        walk(root, &root.join(top), &mut packages)?;
    }
    println!("{:<24} {:>7} {:>7}", "lines of Rust", "code", "tests");
    let mut total = Lines::default();
    for (package, lines) in &packages {
        println!("{package:<24} {:>7} {:>7}", lines.code, lines.tests);
        total.code += lines.code;
        total.tests += lines.tests;
    }
    println!("{:<24} {:>7} {:>7}", "total", total.code, total.tests);
    Ok(true)
}

fn walk(root: &Path, folder: &Path, packages: &mut BTreeMap<String, Lines>) -> Result<(), String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("read {}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && name != "node_modules" {
                walk(root, &path, packages)?;
            }
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("read {}: {error}", path.display()))?;
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let relative = relative.to_string_lossy();
            let lines = packages.entry(package(&relative)).or_default();
            let counted = count(&text, is_test_file(&relative));
            lines.code += counted.code;
            lines.tests += counted.tests;
        }
    }
    Ok(())
}

/// `crates/core` of `crates/core/src/id.rs`; `tests` of `tests/it/main.rs`.
fn package(relative: &str) -> String {
    let mut parts = relative.split('/');
    let top = parts.next().unwrap_or_default();
    match parts.next() {
        Some(second) if top == "crates" => format!("{top}/{second}"),
        _ => top.to_owned(),
    }
}

fn is_test_file(relative: &str) -> bool {
    relative.starts_with("tests/")
        || relative.contains("/tests/")
        || relative.ends_with("/tests.rs")
}

fn count(text: &str, test_file: bool) -> Lines {
    let mut lines = Lines::default();
    let mut in_tests = test_file;
    let mut rest = text.lines().map(str::trim).peekable();
    while let Some(line) = rest.next() {
        in_tests |=
            line == "#[cfg(test)]" && rest.peek().is_some_and(|next| next.starts_with("mod "));
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if in_tests {
            lines.tests += 1;
        } else {
            lines.code += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let text = "//! Head.\n\nfn a() {\n    // why\n}\n";
        assert_eq!(count(text, false), Lines { code: 2, tests: 0 });
    }

    #[test]
    fn what_follows_the_test_module_is_tests() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(count(text, false), Lines { code: 1, tests: 3 });
        let text = "#[cfg(test)]\nfn a() {}\nfn b() {}\n";
        assert_eq!(count(text, false), Lines { code: 3, tests: 0 });
    }

    #[test]
    fn each_crate_is_a_row() {
        assert_eq!(package("crates/core/src/id.rs"), "crates/core");
        assert_eq!(package("tests/it/main.rs"), "tests");
    }
}
