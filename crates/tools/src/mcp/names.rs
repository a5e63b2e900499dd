//! Names of a server's tools in an agent's catalog.

use std::collections::BTreeSet;

use crate::catalog::SEPARATOR;

const NAME_BYTES_MAX: usize = 64;

/// Names of tools of one server, each different from the others.
#[derive(Debug)]
pub(super) struct Names<'a> {
    server: &'a str,
    taken: BTreeSet<String>,
}

impl<'a> Names<'a> {
    pub(super) fn of(server: &'a str) -> Self {
        let taken = BTreeSet::new();
        Self { server, taken }
    }

    /// The name of a tool: the server's and its own, or, if that has characters that no name may
    /// have, is too long or is taken, with a mark that depends on nothing but both names.
    pub(super) fn name(&mut self, tool: &str) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        };
        let shown: String = tool.chars().map(plain).collect();
        let mut name = format!("{}{SEPARATOR}{shown}", self.server);
        if shown != tool
            || shown.is_empty()
            || name.len() > NAME_BYTES_MAX
            || self.taken.contains(&name)
        {
            let mark = blake3_mark(tool);
            name.truncate(NAME_BYTES_MAX - mark.len() - 1);
            name = format!("{name}_{mark}");
        }
        self.taken.insert(name.clone());
        name
    }
}

fn blake3_mark(tool: &str) -> String {
    const MARK_CHARS: usize = 8;
    let hash = steadfast_core::content::BlobHash::of(tool.as_bytes()).to_string();
    hash.chars().take(MARK_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_within_the_rule() {
        let mut names = Names::of("docs");
        let long = "x".repeat(80);
        let made: Vec<String> = ["get_it", "get it", "get.it", "", &long]
            .map(|tool| names.name(tool))
            .to_vec();
        assert_eq!(made[0], "docs__get_it");
        let distinct: BTreeSet<&String> = made.iter().collect();
        assert_eq!(distinct.len(), made.len(), "{made:?}");
        assert!(made.iter().all(|name| name.len() <= 64), "{made:?}");
        // The same names at the next start, whatever else is listed.
        assert_eq!(Names::of("docs").name("get.it"), made[2]);
    }
}
