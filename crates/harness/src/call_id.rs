//! Ids and names of calls in the shape that a wire takes.

use std::borrow::Cow;

use steadfast_core::content::BlobHash;

/// An id as it is if the wire takes it, else another one that is the same each time.
pub(crate) fn shaped(id: &str, bytes_max: usize) -> Cow<'_, str> {
    if !id.is_empty() && id.len() <= bytes_max && id.bytes().all(is_plain) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(format!("call_{}", digits(id, 16)))
    }
}

/// An id of nine letters and digits, the shortest that any server insists on.
pub(crate) fn short(id: &str) -> Cow<'_, str> {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(digits(id, 9))
    }
}

fn digits(id: &str, count: usize) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    BlobHash::of(id.as_bytes())
        .0
        .iter()
        .take(count)
        .filter_map(|byte| DIGITS.get(usize::from(*byte) % DIGITS.len()))
        .map(|digit| char::from(*digit))
        .collect()
}

/// A tool's name as it is if providers take it; a model may have made up any other.
pub(crate) fn tool_name(name: &str) -> Cow<'_, str> {
    const BYTES_MAX: usize = 64;
    if !name.is_empty() && name.len() <= BYTES_MAX && name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let name: String = name
        .chars()
        .take(BYTES_MAX)
        .map(|character| match u8::try_from(character) {
            Ok(byte) if is_plain(byte) => character,
            _ => '_',
        })
        .collect();
    if name.is_empty() {
        Cow::Borrowed("unnamed_tool")
    } else {
        Cow::Owned(name)
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_that_a_wire_takes_are_left_alone() {
        assert_eq!(shaped("toolu_01-x", 64), "toolu_01-x");
        assert_eq!(short("abcDEF123"), "abcDEF123");
        assert_eq!(tool_name("get_weather"), "get_weather");
    }

    #[test]
    fn others_get_one_that_is_the_same_each_time() {
        let long = "x".repeat(65);
        let found = shaped(&long, 64);
        assert_eq!(found, shaped(&long, 64));
        assert_eq!((found.len(), &found[..5]), (21, "call_"));
        assert_ne!(shaped("a b", 64), shaped("a.b", 64));
        assert_eq!(short("call_1").len(), 9);
        assert_eq!(tool_name("a.b ü"), "a_b__");
        assert_eq!(tool_name(""), "unnamed_tool");
    }
}
