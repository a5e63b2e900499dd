//! What a client asks of a session.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::child::{ParentCall, TurnShare};
use crate::content::{BlobRef, CallOutput, Content};
use crate::id::{AgentName, ApprovalId, CallId, CommandId, MessageId, Seq, SessionKey, TurnId};
use crate::input::CallTriage;
use crate::trace::Traceparent;

/// A request with the id under which it is remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Chosen by the client, or made by the API.
    pub id: CommandId,
    /// What is asked.
    pub body: CommandBody,
}

impl Command {
    /// Hash of the body: the same id with another digest is a conflict.
    pub fn digest(&self) -> Digest {
        let mut body = self.body.clone();
        match &mut body {
            // What the owner found out is not what the client asked.
            CommandBody::DecideApproval { triage, .. } => *triage = None,
            CommandBody::AnswerCalls { answers } => {
                for answer in answers {
                    if let CallAnswer::Approval { triage, .. } = answer {
                        *triage = None;
                    }
                }
            }
            // A client that repeats a message does so in another span.
            // The same call asks for the same, whatever its turn has left by then.
            CommandBody::Submit { options, .. } => {
                options.traceparent = None;
                options.share = None;
            }
            CommandBody::Create { .. }
            | CommandBody::Fork { .. }
            | CommandBody::Withdraw { .. }
            | CommandBody::Cancel { .. }
            | CommandBody::Compact
            | CommandBody::SettleCall { .. }
            | CommandBody::SkipCall { .. }
            | CommandBody::RetryCall { .. }
            | CommandBody::Delete => {}
        }
        // A map of JSON has sorted keys, so equal bodies have equal bytes.
        let bytes = serde_json::to_vec(&body).unwrap_or_default();
        Digest::of(&bytes)
    }
}

/// First 8 bytes of a BLAKE3 hash: tells two contents under one id apart. A number in a Record, 16
/// hexadecimal digits in JSON, whose readers may round numbers above 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u64);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let hash = blake3::hash(bytes);
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        Self(u64::from_be_bytes(first))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Inside an event the format is hidden by the buffer of its tag: what is there tells.
        deserializer.deserialize_any(EitherForm)
    }
}

struct EitherForm;

impl Visitor<'_> for EitherForm {
    type Value = Digest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("16 hexadecimal digits or a number")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Digest, E> {
        Ok(Digest(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Digest, E> {
        let number = u64::from_str_radix(text, 16).map(Digest);
        let number = number.ok().filter(|digest| digest.to_string() == text);
        number.ok_or_else(|| E::custom("not 16 lower-case hexadecimal digits"))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{16}$" })
    }
}

/// The kinds of command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CommandBody {
    /// Make the session; the same content again is the same session.
    Create {
        /// What it shall be.
        new: NewSession,
    },
    /// Make the session with a copy of another's transcript.
    Fork {
        /// What it shall be.
        new: NewSession,
        /// What it starts from.
        origin: ForkOrigin,
    },
    /// Send a message.
    Submit {
        /// What it says.
        content: Content,
        /// How it is handled.
        options: MessageOptions,
        /// Makes the session when it is new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new: Option<NewSession>,
    },
    /// Take a queued message back.
    Withdraw {
        /// Which one.
        message: MessageId,
    },
    /// End a turn.
    Cancel {
        /// Which one; `None`: the one that runs.
        turn: Option<TurnId>,
    },
    /// Summarise the history now.
    Compact,
    /// Answer an approval.
    DecideApproval {
        /// Which one.
        approval: ApprovalId,
        /// Yes or no.
        approved: bool,
        /// Why; reaches the tool or the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Today's triage of the call, added by the owner just before deciding.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        triage: Option<CallTriage>,
    },
    /// Give a waiting client-side call its result, or settle a call that is in doubt.
    SettleCall {
        /// Which call.
        call: CallId,
        /// Its result.
        output: CallOutput,
        /// Who says so.
        by: Settler,
    },
    /// Answer several calls at once: all that can still be answered are, or, if none can, none is.
    AnswerCalls {
        /// At most [`ANSWERS_PER_COMMAND_MAX`](crate::limits::ANSWERS_PER_COMMAND_MAX), each about a
        /// call of its own.
        answers: Vec<CallAnswer>,
    },
    /// Let a turn that waits for the outcome of a call in doubt go on without it.
    SkipCall {
        /// Which call.
        call: CallId,
    },
    /// Run a call in doubt once more.
    RetryCall {
        /// Which call.
        call: CallId,
    },
    /// Remove the session.
    Delete,
}

impl CommandBody {
    /// The earlier message that it is about, if it is about one: its receipt decides, too.
    pub fn message(&self) -> Option<&MessageId> {
        match self {
            Self::Submit { options, .. } => options.replaces.as_ref(),
            Self::Withdraw { message } => Some(message),
            Self::Create { .. }
            | Self::Fork { .. }
            | Self::Cancel { .. }
            | Self::Compact
            | Self::DecideApproval { .. }
            | Self::SettleCall { .. }
            | Self::AnswerCalls { .. }
            | Self::SkipCall { .. }
            | Self::RetryCall { .. }
            | Self::Delete => None,
        }
    }
}

/// One of several answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CallAnswer {
    /// To an approval.
    Approval {
        /// Which one.
        approval: ApprovalId,
        /// Yes or no.
        approved: bool,
        /// Why; reaches the tool or the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Today's triage of the call, added by the owner just before deciding.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        triage: Option<CallTriage>,
    },
    /// The client's result of its own call, or its answer to what a tool asks.
    Result {
        /// Which call.
        call: CallId,
        /// Its result.
        output: CallOutput,
    },
}

/// Who settles a call from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settler {
    /// The client, of a client-side call.
    Client,
    /// An operator, also of a call in doubt.
    Operator,
}

/// How a session is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NewSession {
    /// Whose agent answers.
    pub agent: AgentName,
    /// The application's own data, kept as it is.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// For listing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// What a forked session starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForkOrigin {
    /// The session that was copied.
    pub from: SessionKey,
    /// Up to and including this event.
    pub at_seq: Seq,
    /// The transcript as blobs of the new session, oldest first.
    pub transcript: Vec<PackedItems>,
}

/// A run of transcript items kept as one blob. It never ends between a reply that asks for calls
/// and their results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PackedItems {
    /// The blob: a JSON array of transcript items.
    pub blob: BlobRef,
    /// How many items it holds.
    pub items: u32,
    /// Number of the first item's event.
    pub first_seq: Seq,
    /// Number of the last item's event that counts; later items of the blob were rewound.
    pub last_seq: Seq,
    /// Estimated size for a model.
    pub tokens: u64,
}

/// What happens to a message that comes while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WhenBusy {
    /// It becomes its own turn, in order.
    #[default]
    Queue,
    /// It joins the running turn before the next model call.
    Steer,
    /// It ends the running turn and runs next.
    Interrupt,
    /// It is refused.
    Reject,
}

/// Whether a model must, may or must not call tools.
///
/// As JSON: `"auto"`, `"none"`, `"required"` or `{"tool": "NAME"}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ToolChoice {
    /// It may.
    #[default]
    Auto,
    /// It must not.
    None,
    /// It must call one.
    Required,
    /// It must call this one.
    Tool(String),
}

impl ToolChoice {
    /// The tool that it names.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::Tool(name) => Some(name),
            Self::Auto | Self::None | Self::Required => None,
        }
    }
}

/// How a message is handled.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageOptions {
    /// When a turn runs already.
    #[serde(default)]
    pub when_busy: WhenBusy,
    /// For `steer`: only into this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Rewinds to this message, which the new one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<MessageId>,
    /// The application's own data, kept as it is.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
    /// Only these tools are offered in the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_tools: Option<Vec<String>>,
    /// These tools are not offered in the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactive_tools: Option<Vec<String>>,
    /// Whether the turn's model calls tools, in place of what its agent says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// JSON Schema that the turn's answer must fit, in place of its agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The trace that the turn belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Traceparent>,
    /// The call of another session that asks, and is told how the turn ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<ParentCall>>,
    /// What of that session's turn this one may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Box<TurnShare>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Verdict};

    #[test]
    fn a_digest_is_lossless_in_json() {
        let event = Event::CommandSettled {
            command: CommandId::new("m1").unwrap(),
            digest: Digest((1 << 63) + 1),
            verdict: Verdict::Done,
        };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["digest"], "8000000000000001");
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
        for text in [
            "",
            "1",
            "8000000000000001\u{0}",
            "800000000000000G",
            "+000000000000001",
        ] {
            let digest = serde_json::from_value::<Digest>(text.into());
            assert!(digest.is_err(), "{text:?}");
        }
    }
}
