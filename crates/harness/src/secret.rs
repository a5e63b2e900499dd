//! Texts that must not be shown.

use std::fmt;

/// A key or the like. It is never printed, and taken out of what a provider says.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to be sent and nothing else.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Takes the secret out of a text.
    pub(crate) fn scrub(&self, text: &mut String) {
        // Shorter ones would riddle ordinary words.
        const BYTES_MIN: usize = 7;
        // A header's value may hold the key behind a word, as `Bearer` does.
        for word in self.0.split_whitespace() {
            if word.len() >= BYTES_MIN && text.contains(word) {
                *text = text.replace(word, "[secret]");
            }
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
