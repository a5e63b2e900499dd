//! Version byte and MessagePack with named fields.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::structure::{self, DEPTH_MAX, Fault};

/// Why a value could not be written. Nothing that [`DecodeError`] would refuse is ever written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// Larger than what is read back.
    #[error("a {what} of {bytes} bytes is larger than the {bytes_max} that are allowed")]
    TooLarge {
        /// What was being written.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// It holds JSON of more levels than are read back.
    #[error("a {what} is nested too deeply to be read back")]
    TooDeep {
        /// What was being written.
        what: &'static str,
    },
    /// A part of it has no encoding.
    #[error("a {what} cannot be written: {detail}")]
    Unwritable {
        /// What was being written.
        what: &'static str,
        /// What has no encoding.
        detail: String,
    },
}

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

/// Room made at once for what is written: most Records fit.
const CAPACITY_BYTES: usize = 1024;

/// One kind of thing that is kept as bytes.
pub(crate) struct Format {
    /// Its name in errors.
    pub(crate) what: &'static str,
    /// Its newest version.
    pub(crate) version: u8,
    /// Its size, version byte included, at most.
    pub(crate) bytes_max: usize,
}

impl Format {
    pub(crate) fn encode<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, EncodeError> {
        let what = self.what;
        let mut bytes = Vec::with_capacity(CAPACITY_BYTES);
        bytes.push(self.version);
        write(what, value, &mut bytes)?;
        if bytes.len() > self.bytes_max {
            return Err(EncodeError::TooLarge {
                what,
                bytes: bytes.len(),
                bytes_max: self.bytes_max,
            });
        }
        let body = bytes.get(1..).unwrap_or_default();
        structure::check(body).map_err(|fault| match fault {
            Fault::TooDeep => EncodeError::TooDeep { what },
            Fault::CutOff | Fault::Marker(_) | Fault::Trailing => EncodeError::Unwritable {
                what,
                detail: fault.detail(),
            },
        })?;
        Ok(bytes)
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, DecodeError> {
        let (&found, body) = bytes.split_first().ok_or_else(|| self.corrupt("empty"))?;
        if found == 0 {
            return Err(self.corrupt("version 0"));
        }
        if found > self.version {
            return Err(DecodeError::Version {
                found,
                known: self.version,
            });
        }
        if bytes.len() > self.bytes_max {
            let detail = format!("{} bytes, {} are allowed", bytes.len(), self.bytes_max);
            return Err(self.corrupt(detail));
        }
        structure::check(body).map_err(|fault| self.corrupt(fault.detail()))?;
        let mut deserializer = rmp_serde::Deserializer::from_read_ref(body);
        deserializer.set_max_depth(DEPTH_MAX + 1);
        T::deserialize(&mut deserializer).map_err(|error| self.corrupt(error.to_string()))
    }

    pub(crate) fn corrupt(&self, detail: impl Into<String>) -> DecodeError {
        DecodeError::Corrupt {
            what: self.what,
            detail: detail.into(),
        }
    }
}

/// Bytes that a value takes within a Record or a letter.
///
/// Sizes that decide whether something fits must be measured so, not as JSON: a short decimal
/// fraction takes more than twice its text.
pub fn encoded_bytes<T: Serialize>(value: &T) -> Result<usize, EncodeError> {
    let mut count = Count(0);
    write("value", value, &mut count)?;
    Ok(count.0)
}

fn write<T: Serialize>(
    what: &'static str,
    value: &T,
    into: &mut impl io::Write,
) -> Result<(), EncodeError> {
    let mut serializer = rmp_serde::Serializer::new(into).with_struct_map();
    value
        .serialize(&mut serializer)
        .map_err(|error| match error {
            rmp_serde::encode::Error::DepthLimitExceeded => EncodeError::TooDeep { what },
            other => EncodeError::Unwritable {
                what,
                detail: other.to_string(),
            },
        })
}

/// Counts what is written.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
