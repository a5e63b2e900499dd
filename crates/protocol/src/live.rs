//! Live frames: what is shown of a step before it is committed. Never stored, may be lost.

use serde::{Deserialize, Serialize};
use steadfast_core::id::{CallId, Epoch, TurnId};

use crate::codec::{DecodeError, EncodeError, Format};

/// A frame, at most.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;

const FORMAT: Format = Format {
    what: "live frame",
    version: 1,
    bytes_max: FRAME_BYTES_MAX,
};

/// One live frame. Frames of lower `(epoch, step, attempt)` than the newest seen are dropped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveFrame {
    /// Ownership generation of its sender.
    pub epoch: Epoch,
    /// The turn.
    pub turn: TurnId,
    /// The step.
    pub step: u32,
    /// The attempt of the step's model call.
    pub attempt: u32,
    /// Position among the frames of that attempt, from 0, without gap.
    pub n: u64,
    /// What is shown.
    pub delta: Delta,
}

/// What is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// More text of a part.
    Text {
        /// Position of the part in the reply.
        part: u32,
        /// The text.
        text: String,
    },
    /// More reasoning of a part.
    Reasoning {
        /// Position of the part in the reply.
        part: u32,
        /// The text.
        text: String,
    },
    /// More of a call's arguments.
    ToolInput {
        /// Position of the call among the reply's calls.
        index: u16,
        /// Name of the tool.
        tool: String,
        /// JSON text, a piece of it.
        text: String,
    },
    /// A preliminary result of a running call.
    ToolProgress {
        /// Which call.
        call: CallId,
        /// What it says so far.
        output: serde_json::Value,
    },
    /// All that was shown of this attempt is void; another follows.
    Withdrawn,
}

/// Bytes of a frame.
pub fn encode(frame: &LiveFrame) -> Result<Vec<u8>, EncodeError> {
    FORMAT.encode(frame)
}

/// Reads a frame.
pub fn decode(bytes: &[u8]) -> Result<LiveFrame, DecodeError> {
    FORMAT.decode(bytes)
}
