//! Links in Markdown: what they name must be there.

use crate::tree::Tree;

/// Links that lead nowhere.
pub(crate) fn link_findings(tree: &Tree) -> Vec<String> {
    let documents = tree.texts().filter(|(path, _)| path.ends_with(".md"));
    let mut findings = Vec::new();
    for (path, text) in documents {
        for link in links(text) {
            if !resolves(tree, path, text, &link) {
                findings.push(format!("{path}: {link}"));
            }
        }
    }
    findings
}

/// Targets of `[text](target)`, without code blocks and code spans.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        if in_block {
            continue;
        }
        // Every second piece between backquotes is code.
        let prose: String = line.split('`').step_by(2).collect();
        for (at, _) in prose.match_indices("](") {
            let target = prose[at + 2..].split(')').next().unwrap_or_default();
            found.push(target.to_owned());
        }
    }
    found
}

fn resolves(tree: &Tree, from: &str, text: &str, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    if file.is_empty() {
        return has_anchor(text, anchor);
    }
    let Some(path) = join(from, file) else {
        return false;
    };
    tree.has(&path) && (anchor.is_empty() || has_anchor(tree.text(&path), anchor))
}

/// A link's path from the root; `None`: it leaves the tree.
fn join(from: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn has_anchor(text: &str, anchor: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| slug(line.trim_start_matches('#').trim()))
        .any(|slug| slug == anchor)
}

/// The anchor that viewers make of a heading.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_not_links() {
        let text = "See [a](a.md) and `[b](b.md)`.\n```\n[c](c.md)\n```\n[d](d.md#x)";
        assert_eq!(links(text), ["a.md", "d.md#x"]);
    }

    #[test]
    fn a_path_goes_from_its_document() {
        assert_eq!(
            join("crates/README.md", "../tests/it/main.rs"),
            Some("tests/it/main.rs".to_owned())
        );
        assert_eq!(join("README.md", "../secret"), None);
    }

    #[test]
    fn an_anchor_is_a_heading() {
        let text = "# Two commands\n\n## What it's for, and why\n";
        assert!(has_anchor(text, "two-commands"));
        assert!(has_anchor(text, "what-its-for-and-why"));
        assert!(!has_anchor(text, "elsewhere"));
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let tree = Tree::read();
        assert!(!resolves(&tree, "README.md", "", "nowhere.md"));
        assert!(!resolves(&tree, "README.md", "# A", "#b"));
        assert!(resolves(&tree, "README.md", "", "crates/core/src/lib.rs"));
    }
}
