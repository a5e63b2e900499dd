//! The configuration as one JSON value, put together from its sources, with the place of each part.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::key_path::KeyPath;

/// All sources together; what comes later replaces what came before, key by key.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// The value.
    pub(crate) value: Map<String, Value>,
    sources: Vec<Source>,
    origins: BTreeMap<KeyPath, Origin>,
}

/// Where a part of the configuration was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// In a file.
    File {
        /// As the user named it.
        path: String,
        /// Its text, with what looks like a secret struck out.
        text: String,
    },
    /// In an environment variable of this name.
    Environment(String),
    /// On the command line, under this key.
    Argument(String),
}

#[derive(Debug, Clone)]
struct Origin {
    source: usize,
    key: Range<usize>,
    value: Range<usize>,
}

/// A part of a source.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) source: &'a Source,
    /// Of the key, in bytes; empty outside of files.
    pub(crate) key: Range<usize>,
    /// Of the value.
    pub(crate) value: Range<usize>,
}

/// An error of the TOML syntax: what and where.
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) span: Range<usize>,
}

impl Document {
    /// Merges a file's tables under `prefix`; gives the syntax errors, after which the merged part
    /// is what could be read.
    pub(crate) fn merge_file(
        &mut self,
        path: &str,
        text: &str,
        prefix: &KeyPath,
    ) -> Vec<SyntaxError> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut strike = Vec::new();
        let source = self.sources.len();
        let whole = Origin {
            source,
            key: 0..0,
            value: 0..0,
        };
        self.merge_table(prefix, table.get_ref(), &whole, &mut strike);
        self.sources.push(Source::File {
            path: path.to_owned(),
            text: struck_out(text, &strike),
        });
        let to_error = |error: &toml::de::Error| SyntaxError {
            message: error.message().to_owned(),
            span: error.span().unwrap_or(0..0),
        };
        errors.iter().map(to_error).collect()
    }

    /// Puts one value at `path`, making the tables on the way. Fails with the path of a value on
    /// the way that is no table.
    pub(crate) fn set(
        &mut self,
        source: Source,
        path: &KeyPath,
        value: Value,
    ) -> Result<(), KeyPath> {
        let origin = Origin {
            source: self.sources.len(),
            key: 0..0,
            value: 0..0,
        };
        self.sources.push(source);
        let mut at = KeyPath::default();
        let mut slot: Option<&mut Value> = None;
        for key in &path.0 {
            let before = at.clone();
            at = at.join(key);
            slot = match slot {
                None => Some(self.value.entry(key.clone()).or_insert(Value::Null)),
                Some(Value::Array(items)) => {
                    let index: Option<usize> = key.parse().ok();
                    Some(index.and_then(|index| items.get_mut(index)).ok_or(before)?)
                }
                Some(current) => {
                    if current.is_null() {
                        *current = Value::Object(Map::new());
                    }
                    let table = current.as_object_mut().ok_or(before)?;
                    Some(table.entry(key.clone()).or_insert(Value::Null))
                }
            };
            self.origins.entry(at.clone()).or_insert(origin.clone());
        }
        if let Some(slot) = slot {
            *slot = value;
        }
        self.forget_below(path);
        self.origins.insert(path.clone(), origin);
        Ok(())
    }

    /// Where this value, or the nearest table around it, was written.
    pub(crate) fn place(&self, path: &KeyPath) -> Option<Place<'_>> {
        let mut at = path.clone();
        loop {
            if let Some(origin) = self.origins.get(&at) {
                return Some(Place {
                    source: self.sources.get(origin.source)?,
                    key: origin.key.clone(),
                    value: origin.value.clone(),
                });
            }
            at = at.parent()?;
        }
    }

    /// Where a value stands among all others: the source, and the byte in it.
    pub(crate) fn position(&self, path: &KeyPath) -> (usize, usize) {
        let mut at = Some(path.clone());
        while let Some(path) = at {
            if let Some(origin) = self.origins.get(&path) {
                return (origin.source, origin.key.start);
            }
            at = path.parent();
        }
        (0, 0)
    }

    /// The value at this path.
    pub(crate) fn get(&self, path: &KeyPath) -> Option<&Value> {
        let (first, rest) = path.0.split_first()?;
        rest.iter()
            .try_fold(self.value.get(first)?, |value, key| match value {
                Value::Array(items) => items.get(key.parse::<usize>().ok()?),
                _ => value.get(key),
            })
    }

    /// The keys of the table at this path.
    pub(crate) fn keys(&self, path: &KeyPath) -> Vec<String> {
        let table = if path.0.is_empty() {
            Some(&self.value)
        } else {
            self.get(path).and_then(Value::as_object)
        };
        table
            .map(|table| table.keys().cloned().collect())
            .unwrap_or_default()
    }

    fn merge_table(
        &mut self,
        path: &KeyPath,
        table: &DeTable<'_>,
        origin: &Origin,
        strike: &mut Vec<Range<usize>>,
    ) {
        self.make_table(path);
        self.origins.insert(path.clone(), origin.clone());
        for (key, value) in table {
            let path = path.join(key.get_ref());
            let origin = Origin {
                source: origin.source,
                key: key.span(),
                value: value.span(),
            };
            if let DeValue::Table(inner) = value.get_ref() {
                self.merge_table(&path, inner, &origin, strike);
            } else {
                self.forget_below(&path);
                let json = self.leaf(&path, value, &origin, strike);
                self.put(&path, json);
            }
        }
    }

    /// Turns what is no table at the place of a merge into JSON, and notes the places of its parts.
    fn leaf(
        &mut self,
        path: &KeyPath,
        value: &Spanned<DeValue<'_>>,
        origin: &Origin,
        strike: &mut Vec<Range<usize>>,
    ) -> Value {
        self.origins.insert(path.clone(), origin.clone());
        match value.get_ref() {
            DeValue::String(text) => {
                if looks_secret(path, text) {
                    strike.push(value.span());
                }
                Value::String(text.to_string())
            }
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Value::String(number.to_string()), Value::from),
            DeValue::Float(number) => number
                .as_str()
                .parse::<f64>()
                .map_or(Value::Null, Value::from),
            DeValue::Boolean(yes) => Value::Bool(*yes),
            DeValue::Datetime(date) => Value::String(date.to_string()),
            DeValue::Array(items) => {
                let item = |(position, item): (usize, &Spanned<DeValue<'_>>)| {
                    let origin = Origin {
                        source: origin.source,
                        key: item.span(),
                        value: item.span(),
                    };
                    self.leaf(&path.join(position), item, &origin, strike)
                };
                Value::Array(items.iter().enumerate().map(item).collect())
            }
            DeValue::Table(table) => {
                let entry =
                    |(key, value): (&Spanned<toml::de::DeString<'_>>, &Spanned<DeValue<'_>>)| {
                        let origin = Origin {
                            source: origin.source,
                            key: key.span(),
                            value: value.span(),
                        };
                        let json = self.leaf(&path.join(key.get_ref()), value, &origin, strike);
                        (key.get_ref().to_string(), json)
                    };
                Value::Object(table.iter().map(entry).collect())
            }
        }
    }

    fn make_table(&mut self, path: &KeyPath) {
        if !path.0.is_empty() && !self.get(path).is_some_and(Value::is_object) {
            self.forget_below(path);
            self.put(path, Value::Object(Map::new()));
        }
    }

    fn put(&mut self, path: &KeyPath, value: Value) {
        let Some((last, way)) = path.0.split_last() else {
            return;
        };
        let mut table = &mut self.value;
        for key in way {
            let next = table
                .entry(key.clone())
                .or_insert_with(|| Value::Object(Map::new()));
            let Some(inner) = next.as_object_mut() else {
                return;
            };
            table = inner;
        }
        table.insert(last.clone(), value);
    }

    fn forget_below(&mut self, path: &KeyPath) {
        let below = |other: &KeyPath| other.0.len() > path.0.len() && other.0.starts_with(&path.0);
        self.origins.retain(|other, _| !below(other));
    }
}

/// Whether a text may be a secret that should not have been written into the file.
fn looks_secret(path: &KeyPath, text: &str) -> bool {
    let named = path.0.iter().any(|key| names_secret(key));
    named && !text.starts_with("env:") && !text.starts_with("file:")
}

/// Whether a key's name says that its value is a secret.
pub(crate) fn names_secret(key: &str) -> bool {
    const WORDS: [&str; 7] = [
        "key",
        "token",
        "secret",
        "password",
        "auth",
        "cookie",
        "credential",
    ];
    let key = key.to_ascii_lowercase();
    WORDS.iter().any(|word| key.contains(word))
}

/// The text with the contents of these strings replaced, byte for byte.
fn struck_out(text: &str, strike: &[Range<usize>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for span in strike {
        for byte in bytes.get_mut(span.clone()).unwrap_or_default() {
            if !matches!(*byte, b'"' | b'\'' | b'\n' | b'\r') {
                *byte = b'*';
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(texts: &[&str]) -> Document {
        let mut document = Document::default();
        for text in texts {
            assert!(
                document
                    .merge_file("a.toml", text, &KeyPath::default())
                    .is_empty()
            );
        }
        document
    }

    #[test]
    fn later_sources_replace_key_by_key() {
        let mut document = document(&[
            "[node]\nname = \"a\"\nlisten = \"x\"\n[store]\npath = \"p\"",
            "[node]\nlisten = \"y\"",
        ]);
        document
            .set(
                Source::Argument("store.path".into()),
                &KeyPath::from(["store", "path"]),
                json!("q"),
            )
            .unwrap();
        assert_eq!(
            Value::Object(document.value.clone()),
            json!({"node": {"name": "a", "listen": "y"}, "store": {"path": "q"}})
        );
        let place = document.place(&KeyPath::from(["store", "path"])).unwrap();
        assert_eq!(place.source, &Source::Argument("store.path".into()));
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "[node]\nname = \"a\"\n";
        let document = document(&[text]);
        let place = document.place(&KeyPath::from(["node", "name"])).unwrap();
        assert_eq!(&text[place.key], "name");
        assert_eq!(&text[place.value], "\"a\"");
    }

    #[test]
    fn a_missing_key_has_the_place_of_the_table_around_it() {
        let text = "[[agents.a.tools]]\nreplay = \"safe\"\n";
        let document = document(&[text]);
        let path = KeyPath::from(["agents", "a", "tools", "0", "name"]);
        assert_eq!(
            &text[document.place(&path).unwrap().value],
            "[[agents.a.tools]]"
        );
    }

    #[test]
    fn an_element_of_an_array_can_be_set() {
        let mut document = document(&["[[agents.a.tools]]\nname = \"x\"\n"]);
        let path = KeyPath::from(["agents", "a", "tools", "0", "replay"]);
        let source = || Source::Argument(String::new());
        document.set(source(), &path, json!("safe")).unwrap();
        assert_eq!(document.get(&path), Some(&json!("safe")));
        let absent = KeyPath::from(["agents", "a", "tools", "1", "replay"]);
        assert_eq!(
            document.set(source(), &absent, json!("safe")),
            Err(KeyPath::from(["agents", "a", "tools"]))
        );
    }

    #[test]
    fn a_literal_secret_is_struck_out_of_what_is_shown() {
        let document = document(&["api_key = \"sk-live\"\nother = \"env\"\n"]);
        let Some(Source::File { text, .. }) = document.sources.last() else {
            panic!("no file")
        };
        assert_eq!(text, "api_key = \"*******\"\nother = \"env\"\n");
    }
}
