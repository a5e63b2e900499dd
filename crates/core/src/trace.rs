//! To which trace of the outside a message belongs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A W3C trace context: `00-<trace>-<span>-<flags>`, all in lower-case hexadecimal digits.
///
/// It is recorded with a message, so that what any owner does for its turn, also after a crash,
/// stands in the one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Traceparent {
    /// The trace; never 0.
    pub trace: u128,
    /// The span that caused the message; never 0.
    pub span: u64,
    /// The lowest bit: it is sampled.
    pub flags: u8,
}

/// A text that is no trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceparentError;

impl fmt::Display for TraceparentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a traceparent: 00-, then 32, 16 and 2 lower-case hexadecimal digits, ids not zero",
        )
    }
}

impl std::error::Error for TraceparentError {}

impl FromStr for Traceparent {
    type Err = TraceparentError;

    /// Reads version 00, and of a later version the part that it has in common.
    fn from_str(text: &str) -> Result<Self, TraceparentError> {
        let mut parts = text.splitn(5, '-');
        let mut digits = |count: usize| {
            let part = parts.next().filter(|part| part.len() == count);
            part.filter(|part| part.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')))
                .ok_or(TraceparentError)
        };
        let (version, trace, span, flags) = (digits(2)?, digits(32)?, digits(16)?, digits(2)?);
        let more = parts.next().is_some();
        if version == "ff" || (version == "00" && more) {
            return Err(TraceparentError);
        }
        let parsed = Self {
            trace: u128::from_str_radix(trace, 16).map_err(|_| TraceparentError)?,
            span: u64::from_str_radix(span, 16).map_err(|_| TraceparentError)?,
            flags: u8::from_str_radix(flags, 16).map_err(|_| TraceparentError)?,
        };
        if parsed.trace == 0 || parsed.span == 0 {
            return Err(TraceparentError);
        }
        Ok(parsed)
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, flags } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

impl Serialize for Traceparent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Traceparent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Traceparent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Traceparent".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$",
            "description": "A W3C trace context.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_context_is_written_as_it_was_read() {
        let read: Traceparent = GOOD.parse().unwrap();
        assert_eq!(read.to_string(), GOOD);
        let later = GOOD.replacen("00", "01", 1) + "-more";
        assert_eq!(later.parse(), Ok(read));
    }

    #[test]
    fn what_is_no_trace_context_is_refused() {
        let zero_trace = GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        let zero_span = GOOD.replace("b7ad6b7169203331", &"0".repeat(16));
        let texts = [
            String::new(),
            GOOD.to_uppercase(),
            format!("{GOOD}-more"),
            format!("{GOOD} "),
            GOOD.replacen("00", "ff", 1),
            GOOD.replacen("00", "0", 1),
            GOOD.replace("-01", "-+1"),
            zero_trace,
            zero_span,
        ];
        for text in texts {
            assert_eq!(text.parse::<Traceparent>(), Err(TraceparentError), "{text}");
        }
    }
}
