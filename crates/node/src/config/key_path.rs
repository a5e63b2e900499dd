//! The place of a value in the configuration.

use std::fmt;

/// Keys from the top to a value; an array's element is its position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct KeyPath(pub(crate) Vec<String>);

impl KeyPath {
    /// From `section.key`, as the command line has it.
    pub(crate) fn dotted(text: &str) -> Self {
        Self(text.split('.').map(str::to_owned).collect())
    }

    /// One deeper.
    pub(crate) fn join(&self, key: impl ToString) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.to_string());
        Self(keys)
    }

    /// One less deep; `None` at the top.
    pub(crate) fn parent(&self) -> Option<Self> {
        let (_, rest) = self.0.split_last()?;
        Some(Self(rest.to_vec()))
    }

    /// The last key; empty at the top.
    pub(crate) fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }
}

impl<const N: usize> From<[&str; N]> for KeyPath {
    fn from(keys: [&str; N]) -> Self {
        Self(keys.iter().map(|key| (*key).to_owned()).collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, key) in self.0.iter().enumerate() {
            if position > 0 && key.bytes().all(|byte| byte.is_ascii_digit()) {
                write!(f, "[{key}]")?;
            } else {
                let dot = if position > 0 { "." } else { "" };
                write!(f, "{dot}{key}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_shown_in_brackets() {
        let path = KeyPath::from(["agents", "support", "tools", "0", "name"]);
        assert_eq!(path.to_string(), "agents.support.tools[0].name");
    }
}
