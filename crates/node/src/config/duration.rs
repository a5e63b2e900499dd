//! A length of time, written `500ms`, `30s`, `10m`, `2h` or `7d`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration {
    ms: u64,
}

/// Each unit with its milliseconds, largest first.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl Duration {
    /// So many milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self { ms }
    }

    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_ms(secs.saturating_mul(1_000))
    }

    /// In milliseconds.
    pub const fn as_ms(self) -> u64 {
        self.ms
    }

    /// As the standard library has it.
    pub const fn get(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.ms)
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "`{text}` is not a length of time: write a number and a unit, for example `30s`; units are ms, s, m, h, d"
            )
        };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| invalid())?;
        UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .and_then(|(_, ms)| number.checked_mul(*ms))
            .map(Self::from_ms)
            .ok_or_else(invalid)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, ms): &&(&str, u64)| self.ms > 0 && self.ms.is_multiple_of(*ms);
        let (unit, ms) = UNITS.iter().find(fits).copied().unwrap_or(("s", 1_000));
        write!(f, "{}{unit}", self.ms / ms)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "title": "a length of time such as \"30s\" (units: ms, s, m, h, d)",
            "pattern": "^[0-9]{1,15}(ms|s|m|h|d)$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_they_are_written() {
        for text in ["0s", "1ms", "1500ms", "30s", "10m", "2h", "7d"] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(duration.to_string(), text);
        }
        assert_eq!("90s".parse(), Ok(Duration::from_secs(90)));
    }

    #[test]
    fn other_texts_are_no_durations() {
        for text in [
            "",
            "30",
            "s",
            "-1s",
            "1.5s",
            "1 s",
            "1w",
            "99999999999999999999s",
        ] {
            assert!(text.parse::<Duration>().is_err(), "{text:?} was accepted");
        }
    }
}
