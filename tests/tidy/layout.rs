//! What stands at the top level.

const ALLOWED: [&str; 9] = [
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "benches",
    "config",
    "crates",
    "deploy",
    "rust-toolchain.toml",
    "tests",
];

/// Entries that belong further down.
pub(crate) fn top_level_findings(names: &[String]) -> Vec<String> {
    let odd = |name: &&String| !name.starts_with('.') && !ALLOWED.contains(&name.as_str());
    names.iter().filter(odd).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_entry_is_found_and_dotfiles_pass() {
        let names = ["Cargo.toml", ".ci", "notes.txt"].map(String::from);
        assert_eq!(top_level_findings(&names), ["notes.txt"]);
    }
}
