//! What nodes ask each other at their doors. Never stored, may be lost.

use serde::{Deserialize, Serialize};
use steadfast_core::id::SessionKey;

use crate::codec::{DecodeError, EncodeError, Format};
use crate::live::LiveFrame;

/// A question or an answer, at most.
pub const DOOR_BYTES_MAX: usize = 768 * 1024;

const QUESTION: Format = Format {
    what: "question at a door",
    version: 1,
    bytes_max: DOOR_BYTES_MAX,
};

const ANSWER: Format = Format {
    what: "answer at a door",
    version: 1,
    bytes_max: DOOR_BYTES_MAX,
};

/// What a node is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Question {
    /// Whether anybody is there. Any answer says yes.
    Alive,
    /// Whether it has this session in memory as its owner.
    Holds {
        /// Which.
        session: SessionKey,
    },
    /// To take the session's mail up to this letter, if it owns the session.
    Mail {
        /// Which.
        session: SessionKey,
        /// Position of the letter.
        up_to: u64,
    },
    /// The live frames of the session's open step, if it owns the session.
    OpenStep {
        /// Which.
        session: SessionKey,
    },
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer {
    /// It is there, and says no more than that.
    Here,
    /// It owns the session.
    Mine {
        /// Mail up to this position is decided and committed.
        taken: u64,
    },
    /// It does not own the session.
    NotMine,
    /// It owns the session and is letting go of it.
    Releasing,
    /// The open step's frames, in order.
    OpenStep {
        /// As many as fit.
        frames: Vec<LiveFrame>,
    },
}

/// Bytes of a question.
pub fn encode_question(question: &Question) -> Result<Vec<u8>, EncodeError> {
    QUESTION.encode(question)
}

/// Reads a question.
pub fn decode_question(bytes: &[u8]) -> Result<Question, DecodeError> {
    QUESTION.decode(bytes)
}

/// Bytes of an answer.
pub fn encode_answer(answer: &Answer) -> Result<Vec<u8>, EncodeError> {
    ANSWER.encode(answer)
}

/// Reads an answer.
pub fn decode_answer(bytes: &[u8]) -> Result<Answer, DecodeError> {
    ANSWER.decode(bytes)
}
