//! Ids on the chat wire.
//!
//! A call is shown while the model still writes its arguments, before the log has given it a
//! [`CallId`]; so its id here is its place, which never changes: turn, step, index.
//!
//! [`CallId`]: steadfast_core::id::CallId

use std::fmt;
use std::str::FromStr;

use steadfast_core::id::{CommandId, Seq, TurnId};

const CALL: &str = "call-";
const MESSAGE: &str = "assistant-";

/// The place of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WireCall {
    pub(crate) turn: TurnId,
    pub(crate) step: u32,
    pub(crate) index: u16,
}

impl fmt::Display for WireCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CALL}{}-{}-{}", self.turn, self.step, self.index)
    }
}

/// The text is not the id of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotACall;

impl FromStr for WireCall {
    type Err = NotACall;

    fn from_str(text: &str) -> Result<Self, NotACall> {
        let mut numbers = text.strip_prefix(CALL).ok_or(NotACall)?.splitn(3, '-');
        let mut number = || numbers.next().ok_or(NotACall);
        let id = Self {
            turn: TurnId(Seq(number()?.parse().map_err(|_| NotACall)?)),
            step: number()?.parse().map_err(|_| NotACall)?,
            index: number()?.parse().map_err(|_| NotACall)?,
        };
        // One spelling only.
        if id.to_string() == text {
            Ok(id)
        } else {
            Err(NotACall)
        }
    }
}

/// Id of a call that the provider ran itself, by its place among the reply's parts.
pub(crate) fn provider_call(turn: TurnId, step: u32, part: usize) -> String {
    format!("provider-{turn}-{step}-{part}")
}

/// Id of the agent's message of a turn.
pub(crate) fn message(turn: TurnId) -> String {
    format!("{MESSAGE}{turn}")
}

/// The turn of an agent's message.
pub(crate) fn turn_of(message: &str) -> Option<TurnId> {
    let turn = TurnId(Seq(message.strip_prefix(MESSAGE)?.parse().ok()?));
    (self::message(turn) == message).then_some(turn)
}

/// The command id of a user's message: its own id where it can be one, else a hash of it.
pub(crate) fn command(message: &str) -> Option<CommandId> {
    CommandId::new(message)
        .or_else(|_| hashed("message", &[message]))
        .ok()
}

/// A command id that is the same for the same words.
pub(crate) fn hashed(
    kind: &str,
    words: &[&str],
) -> Result<CommandId, steadfast_core::id::InvalidId> {
    let mut hasher = blake3::Hasher::new();
    for word in words {
        hasher.update(&(word.len() as u64).to_be_bytes());
        hasher.update(word.as_bytes());
    }
    let hash = hasher.finalize().to_hex();
    CommandId::new(format!("chat-{kind}-{}", &hash.as_str()[..32]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_spelling() {
        let call = WireCall {
            turn: TurnId(Seq(7)),
            step: 2,
            index: 1,
        };
        assert_eq!(call.to_string(), "call-7-2-1");
        assert_eq!("call-7-2-1".parse(), Ok(call));
        for text in ["", "7-2-1", "call-7-2", "call-+7-2-1", "call-7-2-1-1"] {
            assert_eq!(text.parse::<WireCall>(), Err(NotACall), "{text}");
        }
        assert_eq!(message(TurnId(Seq(7))), "assistant-7");
        assert_eq!(turn_of("assistant-7"), Some(TurnId(Seq(7))));
        assert_eq!(turn_of("assistant-07"), None);
    }

    #[test]
    fn any_text_can_name_a_message() {
        assert_eq!(command("aBc-1").unwrap().as_str(), "aBc-1");
        let odd = command("ä message/1").unwrap();
        assert!(odd.as_str().starts_with("chat-message-"), "{odd}");
        assert_eq!(command("ä message/1").unwrap(), odd);
        assert_ne!(command("ä message/2").unwrap(), odd);
    }
}
