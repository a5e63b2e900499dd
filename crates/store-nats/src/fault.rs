//! What went wrong with a request, and what is known of its effect.

use steadfast_store::error::{ReadError, WriteError};
use thiserror::Error;

/// Error numbers of the broker that mean something to us.
pub(crate) mod code {
    /// Another message stands at the end of the subject.
    pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10071;
    /// The same, while another write to the subject is not decided yet.
    pub(crate) const WRONG_LAST_SEQUENCE_IN_FLIGHT: u64 = 10164;
    /// A message of the same id is not decided yet.
    pub(crate) const DUPLICATE_IN_FLIGHT: u64 = 10158;
    /// The stream did not store the message; the text says why.
    pub(crate) const NOT_STORED: u64 = 10077;
    /// No message fits what was asked.
    pub(crate) const NO_MESSAGE: u64 = 10037;
    /// No such stream.
    pub(crate) const STREAM_NOT_FOUND: u64 = 10059;
    /// No such consumer.
    pub(crate) const CONSUMER_NOT_FOUND: u64 = 10014;
    /// A stream of that name has other settings.
    pub(crate) const STREAM_NAME_IN_USE: u64 = 10058;
    /// A consumer of that name has other settings.
    pub(crate) const CONSUMER_NAME_EXISTS: u64 = 10013;
    /// The same, as newer brokers say it.
    pub(crate) const CONSUMER_ALREADY_EXISTS: u64 = 10148;
    /// More than one replica on a server that is alone.
    pub(crate) const NOT_CLUSTERED: u64 = 10074;
    /// No room on the servers, or not as much as the account may use.
    pub(crate) const NO_ROOM: [u64; 4] = [10023, 10028, 10047, 10052];
    /// Not enough servers for the replicas, or not enough room on them.
    pub(crate) const NO_SUITABLE_PEERS: u64 = 10005;
}

/// Why a request has no good answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Fault {
    /// The broker certainly did nothing: it was not asked, or nobody could hear it.
    #[error("{0}")]
    Unavailable(String),
    /// It may have done it, may do it yet, or never.
    #[error("{0}")]
    Unknown(String),
    /// The broker answered that it did nothing.
    #[error("{text} (code {code})")]
    Refused {
        /// Its number for the reason.
        code: u64,
        /// 503 and the like: the class of the reason.
        status: u64,
        /// Its words.
        text: String,
    },
    /// It answered something that is not understood.
    #[error("an answer of the broker cannot be read: {0}")]
    Unreadable(String),
}

impl Fault {
    pub(crate) fn code(&self) -> Option<u64> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Unavailable(_) | Self::Unknown(_) | Self::Unreadable(_) => None,
        }
    }

    /// Whether the same request may be answered better later.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Unknown(_) => true,
            Self::Refused { status, code, .. } => {
                let alone = *code == code::NOT_CLUSTERED;
                (*status >= 500 && !alone) || *code == code::NO_SUITABLE_PEERS
            }
            Self::Unreadable(_) => false,
        }
    }
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreadable(_) => Self::Corrupt(fault.to_string()),
            Fault::Unavailable(_) | Fault::Unknown(_) | Fault::Refused { .. } => {
                Self::Unavailable(fault.to_string())
            }
        }
    }
}

impl From<Fault> for WriteError {
    fn from(fault: Fault) -> Self {
        match &fault {
            Fault::Unavailable(text) => Self::Unavailable(text.clone()),
            Fault::Unknown(_) | Fault::Unreadable(_) => Self::Unknown(fault.to_string()),
            Fault::Refused { code, text, .. } if is_full(*code, text) => {
                Self::Full(fault.to_string())
            }
            // A broker that is not ready, or in the middle of an election, says so.
            Fault::Refused { status, .. } if *status >= 500 => Self::Unavailable(fault.to_string()),
            Fault::Refused { .. } => Self::Refused(fault.to_string()),
        }
    }
}

fn is_full(number: u64, text: &str) -> bool {
    const WORDS: [&str; 3] = [
        "maximum bytes",
        "maximum messages exceeded",
        "no space left",
    ];
    code::NO_ROOM.contains(&number)
        || number == code::NOT_STORED && WORDS.iter().any(|word| text.contains(word))
}
