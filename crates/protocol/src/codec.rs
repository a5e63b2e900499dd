//! Version byte and MessagePack with named fields.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Nesting of decoded values, at most; deeper bytes are corrupt. JSON from outside is capped at 128
/// levels by its parser, the rest is the shape of our own types.
const DEPTH_MAX: usize = 192;

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// Written by a newer release; another node may be able to read it.
    #[error("written in format version {found}, this release reads up to {known}")]
    Version {
        /// Version in the bytes.
        found: u8,
        /// Newest version known here.
        known: u8,
    },
    /// Not what was written.
    #[error("corrupt {what}: {detail}")]
    Corrupt {
        /// What was being read.
        what: &'static str,
        /// What does not fit.
        detail: String,
    },
}

pub(crate) fn encode<T: Serialize>(version: u8, value: &T) -> Vec<u8> {
    let mut bytes = vec![version];
    let mut serializer = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    // Writing to memory fails only for types that refuse to be serialised; ours do not.
    let written = value.serialize(&mut serializer);
    debug_assert!(written.is_ok(), "{written:?}");
    bytes
}

pub(crate) fn decode<T: DeserializeOwned>(
    what: &'static str,
    known: u8,
    bytes: &[u8],
) -> Result<T, DecodeError> {
    let corrupt = |detail: String| DecodeError::Corrupt { what, detail };
    let (&found, body) = bytes.split_first().ok_or_else(|| corrupt("empty".into()))?;
    if found == 0 {
        return Err(corrupt("version 0".into()));
    }
    if found > known {
        return Err(DecodeError::Version { found, known });
    }
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(body);
    deserializer.set_max_depth(DEPTH_MAX);
    let value = T::deserialize(&mut deserializer).map_err(|error| corrupt(error.to_string()))?;
    Ok(value)
}
