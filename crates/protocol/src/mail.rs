//! Mail: what stands in a session's mailbox.

use serde::{Deserialize, Serialize};
use steadfast_core::command::Command;
use steadfast_core::id::{NodeId, Timestamp};

use crate::codec::{DecodeError, EncodeError, Format};
use crate::tool::{self, Answer};

/// A letter, at most: as much as one Record, since its command becomes part of one.
pub const LETTER_BYTES_MAX: usize = steadfast_core::limits::RECORD_BYTES_MAX;

const FORMAT: Format = Format {
    what: "letter",
    version: 1,
    bytes_max: LETTER_BYTES_MAX,
};

/// One letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a letter is read, decided and dropped; most are commands"
)]
pub enum Mail {
    /// A client's command; its sender holds a receipt.
    Command {
        /// What is asked.
        command: Command,
        /// When it was accepted.
        at: Timestamp,
    },
    /// Somebody should own this session: a timer is due, or its owner is gone.
    WakeUp {
        /// The owner that is gone; `None`: a timer.
        dead_owner: Option<NodeId>,
    },
    /// A remote worker says what became of its job. Written and read as JSON.
    #[serde(skip)]
    Answer {
        /// What it says.
        answer: Answer,
    },
}

/// Bytes of a letter.
pub fn encode(mail: &Mail) -> Result<Vec<u8>, EncodeError> {
    match mail {
        Mail::Answer { answer } => tool::encode_answer(answer),
        Mail::Command { .. } | Mail::WakeUp { .. } => FORMAT.encode(mail),
    }
}

/// Reads a letter of any known version.
pub fn decode(bytes: &[u8]) -> Result<Mail, DecodeError> {
    // No version of the other letters begins so.
    if bytes.first() == Some(&b'{') {
        let answer = tool::decode_answer(bytes)?;
        return Ok(Mail::Answer { answer });
    }
    FORMAT.decode(bytes)
}
