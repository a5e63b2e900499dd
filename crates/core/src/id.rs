//! Identities. Each is a type of its own, none is ever used twice for two things.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidId {
    /// Which kind of id was asked for, for example `session id`.
    pub kind: &'static str,
    /// What the kind accepts, in words.
    pub rule: &'static str,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a valid {}: {}", self.kind, self.rule)
    }
}

impl std::error::Error for InvalidId {}

fn is_plain(text: &str, chars_max: usize) -> bool {
    !text.is_empty()
        && text.len() <= chars_max
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $chars_max:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name(String);

        impl $name {
            /// Checks the text: 1 to the kind's limit of `[A-Za-z0-9_-]`.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text = text.into();
                if is_plain(&text, $chars_max) {
                    Ok(Self(text))
                } else {
                    Err(InvalidId {
                        kind: $kind,
                        rule: concat!("1 to ", stringify!($chars_max), " characters of [A-Za-z0-9_-]"),
                    })
                }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

text_id!(
    /// Who owns a session; `default` where there are no tenants.
    TenantId, "tenant id", 64
);
text_id!(
    /// One durable conversation within a tenant.
    SessionId, "session id", 128
);
text_id!(
    /// One process: drawn anew at each start, so a restarted node is a new one.
    NodeId, "node id", 64
);
text_id!(
    /// Chosen by the client for each command; the same id is answered with the first one's answer.
    CommandId, "command id", 128
);
text_id!(
    /// The name of a configured agent.
    AgentName, "agent name", 64
);

/// A message is a command of kind submit: its id is that command's id.
pub type MessageId = CommandId;

/// A session's full name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which one.
    pub session: SessionId,
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.session)
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name(pub u64);

        impl $name {
            /// The one after this.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// Number of an event in its session; the first event has 1, 0 means none yet.
    Seq
);
number_id!(
    /// Ownership generation of a session; only rises. 0 means never owned.
    Epoch
);
number_id!(
    /// Milliseconds since the Unix epoch.
    Timestamp
);

impl Timestamp {
    /// This instant plus a duration in milliseconds, saturating.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// A turn's id: the [`Seq`] of its `TurnQueued` event.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnId(pub Seq);

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One tool call: the epoch and [`Seq`] of the model reply that asked for it, and its index there.
///
/// Written `<epoch>-<seq>-<index>`. Within one epoch a `Seq` never gets a second content, so the
/// id never names two calls. The key a tool sees is `<tenant>/<session>/<call id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// Ownership generation in which the reply was recorded.
    pub epoch: Epoch,
    /// Number of the reply's event.
    pub reply: Seq,
    /// Position among the reply's calls, from 0.
    pub index: u16,
}

impl CallId {
    /// The key that a tool is given, the same at every attempt.
    pub fn key(&self, session: &SessionKey) -> String {
        format!("{session}/{self}")
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.epoch, self.reply, self.index)
    }
}

impl FromStr for CallId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        const INVALID: InvalidId = InvalidId {
            kind: "call id",
            rule: "<epoch>-<seq>-<index>, three decimal numbers",
        };
        let mut numbers = text.splitn(3, '-');
        let mut number = || {
            numbers
                .next()
                .ok_or(INVALID)?
                .parse::<u64>()
                .map_err(|_| INVALID)
        };
        let (epoch, reply, index) = (number()?, number()?, number()?);
        let index = u16::try_from(index).map_err(|_| INVALID)?;
        let id = Self {
            epoch: Epoch(epoch),
            reply: Seq(reply),
            index,
        };
        // One spelling only: `+1-02-3` must not name the same call as `1-2-3`.
        if id.to_string() == text {
            Ok(id)
        } else {
            Err(INVALID)
        }
    }
}

/// Where an attempt stands among all attempts of its call: a later one has a higher fence, whoever
/// owns the session. Written in a fixed width, so that texts compare as fences do.
///
/// A tool that says of a call that it did not happen refuses attempts up to the fence under which it
/// was asked from then on, since a request that seemed lost may still arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// Ownership generation of the session.
    pub epoch: Epoch,
    /// Attempt of the call, from 1.
    pub attempt: u32,
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:010}", self.epoch.0, self.attempt)
    }
}

impl FromStr for Fence {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        const INVALID: InvalidId = InvalidId {
            kind: "fence",
            rule: "<epoch>-<attempt>, of 20 and 10 digits",
        };
        let (epoch, attempt) = text.split_once('-').ok_or(INVALID)?;
        let fence = Self {
            epoch: Epoch(epoch.parse().map_err(|_| INVALID)?),
            attempt: attempt.parse().map_err(|_| INVALID)?,
        };
        if fence.to_string() == text {
            Ok(fence)
        } else {
            Err(INVALID)
        }
    }
}

/// An approval's id: the call it guards, written `approval-<call id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApprovalId(pub CallId);

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "approval-{}", self.0)
    }
}

impl FromStr for ApprovalId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        const INVALID: InvalidId = InvalidId {
            kind: "approval id",
            rule: "approval-<call id>",
        };
        let call = text.strip_prefix("approval-").ok_or(INVALID)?;
        Ok(Self(call.parse().map_err(|_| INVALID)?))
    }
}

macro_rules! serde_as_text {
    ($name:ident) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}

serde_as_text!(CallId);
serde_as_text!(ApprovalId);
serde_as_text!(Fence);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_id_has_one_spelling() {
        let id = CallId {
            epoch: Epoch(3),
            reply: Seq(17),
            index: 2,
        };
        assert_eq!(id.to_string(), "3-17-2");
        assert_eq!("3-17-2".parse::<CallId>(), Ok(id));
        for text in [
            "",
            "3",
            "3-17",
            "3-17-",
            "+3-17-2",
            "03-17-2",
            "3-17-2-1",
            "3-17-65536",
        ] {
            assert!(text.parse::<CallId>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn fences_and_their_texts_have_one_order() {
        let fence = |epoch, attempt| Fence {
            epoch: Epoch(epoch),
            attempt,
        };
        let rising = [
            fence(0, 1),
            fence(2, 9),
            fence(2, 10),
            fence(10, 1),
            fence(u64::MAX, u32::MAX),
        ];
        assert!(rising.is_sorted());
        assert!(rising.map(|fence| fence.to_string()).is_sorted());
        assert_eq!(fence(2, 10).to_string(), "00000000000000000002-0000000010");
        for fence in rising {
            assert_eq!(fence.to_string().parse(), Ok(fence));
        }
        for text in ["", "2-10", "0000000000000000002-0000000010"] {
            assert!(text.parse::<Fence>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn text_ids_reject_odd_characters_and_sizes() {
        assert!(SessionId::new("a".repeat(128)).is_ok());
        for text in [
            String::new(),
            "a".repeat(129),
            "a/b".into(),
            "a b".into(),
            "ä".into(),
        ] {
            assert!(
                SessionId::new(text.clone()).is_err(),
                "{text:?} was accepted"
            );
        }
    }
}
