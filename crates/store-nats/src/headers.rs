//! Headers that we write beside messages.

use std::fmt::Display;

use async_nats::HeaderMap;

/// Number of a Record's first event.
pub(crate) const FIRST_SEQ: &str = "Steadfast-First";
/// Number of a Record's last event.
pub(crate) const LAST_SEQ: &str = "Steadfast-Last";
/// Ownership generation.
pub(crate) const EPOCH: &str = "Steadfast-Epoch";
/// A Record's writer.
pub(crate) const NODE: &str = "Steadfast-Node";
/// Hash of the bytes.
pub(crate) const HASH: &str = "Steadfast-Hash";
/// A time, in milliseconds since the Unix epoch.
pub(crate) const AT: &str = "Steadfast-At";
/// Name of a letter, for people.
pub(crate) const LETTER: &str = "Steadfast-Letter";
/// Bytes of a content that is kept in pieces.
pub(crate) const SIZE: &str = "Steadfast-Size";
/// Where an undecodable message stood.
pub(crate) const SUBJECT: &str = "Steadfast-Subject";
/// Compare-and-append on a subject.
pub(crate) const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

/// Names a message for the broker, which drops the repeats of two minutes.
pub(crate) const MESSAGE_ID: &str = "Nats-Msg-Id";
/// Seconds after which the broker removes the message.
pub(crate) const TIME_TO_LIVE: &str = "Nats-TTL";
/// What a message in a bucket does, unless it is a value.
pub(crate) const BUCKET_OPERATION: &str = "KV-Operation";
/// Replaces all earlier messages of the subject.
pub(crate) const ROLLUP: &str = "Nats-Rollup";
/// When the broker is to deliver the message.
pub(crate) const SCHEDULE: &str = "Nats-Schedule";
/// Where it is to deliver it to.
pub(crate) const SCHEDULE_TARGET: &str = "Nats-Schedule-Target";

/// Headers of a message.
pub(crate) fn map(entries: &[(&str, &dyn Display)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in entries {
        map.insert(*name, value.to_string());
    }
    map
}

/// Text of a header.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.as_str())
}

/// Number in a header.
pub(crate) fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    text(headers, name)?.parse().ok()
}
