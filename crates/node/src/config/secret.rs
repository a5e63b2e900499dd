//! Secrets: the configuration holds only where they are, never what they are.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// What a secret option accepts, in words.
pub(crate) const SECRET_RULE: &str = "`env:NAME` (an environment variable) or `file:PATH` (a file)";

/// Where a secret is: `env:NAME` or `file:PATH`. Printing it prints the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// In this environment variable.
    Env(String),
    /// In this file, without the line break at its end.
    File(PathBuf),
}

/// A secret itself. It is never printed, written or serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

/// Why a secret could not be read.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The variable is not there.
    #[error("environment variable `{0}` is not set")]
    NotSet(String),
    /// There is nothing in it.
    #[error("{0} is empty")]
    Empty(Secret),
    /// The file could not be read.
    #[error("file `{path}` could not be read: {source}", path = path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Secret {
    /// Reads it.
    pub fn read(&self) -> Result<SecretText, SecretError> {
        let text = match self {
            Self::Env(name) => {
                std::env::var(name).map_err(|_| SecretError::NotSet(name.clone()))?
            }
            Self::File(path) => {
                std::fs::read_to_string(path).map_err(|source| SecretError::Unreadable {
                    path: path.clone(),
                    source,
                })?
            }
        };
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(SecretError::Empty(self.clone()));
        }
        Ok(SecretText(text.to_owned()))
    }
}

impl SecretText {
    /// The secret, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl FromStr for Secret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            // The text may be a secret: it must not be part of the message.
            _ => Err(format!("a secret is never written here: use {SECRET_RULE}")),
        }
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "title": SECRET_RULE,
            "pattern": "^(env|file):.+$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_secret_is_refused_without_repeating_it() {
        let error = "sk-live-123".parse::<Secret>().unwrap_err();
        assert!(!error.contains("sk-live-123"));
        assert!(error.contains("env:NAME"));
    }

    #[test]
    fn a_secret_is_read_from_its_file_and_never_printed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let secret: Secret = format!("file:{}", file.path().display()).parse().unwrap();
        let text = secret.read().unwrap();
        assert_eq!(text.expose(), "hunter2");
        assert_eq!(format!("{text:?}"), "[secret]");
    }

    #[test]
    fn a_missing_secret_names_its_place() {
        let secret: Secret = "env:STEADFAST_TEST_NO_SUCH_VARIABLE".parse().unwrap();
        assert_eq!(
            secret.read().unwrap_err().to_string(),
            "environment variable `STEADFAST_TEST_NO_SUCH_VARIABLE` is not set"
        );
    }
}
