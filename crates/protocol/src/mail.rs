//! Mail: what stands in a session's mailbox.

use serde::{Deserialize, Serialize};
use steadfast_core::command::Command;
use steadfast_core::id::{NodeId, Timestamp};

use crate::codec::{self, DecodeError};

const VERSION: u8 = 1;

/// One letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
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
}

/// Bytes of a letter.
pub fn encode(mail: &Mail) -> Vec<u8> {
    codec::encode(VERSION, mail)
}

/// Reads a letter of any known version.
pub fn decode(bytes: &[u8]) -> Result<Mail, DecodeError> {
    codec::decode("mail", VERSION, bytes)
}
