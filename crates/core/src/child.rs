//! Sub-agents: calls that are answered by a session of their own.
//!
//! The child's name follows from the call, so whoever asks again after a crash asks the same session,
//! and whoever cancels finds it.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, CommandId, InvalidId, MessageId, SessionId, SessionKey, TenantId};

/// The call of another session that asked for a turn, and is told how it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ParentCall {
    /// The session, of the same tenant.
    pub session: SessionId,
    /// Its call.
    pub call: CallId,
    /// How many sessions stand above this one.
    pub depth: u32,
}

impl ParentCall {
    /// The name of the session that asked.
    pub fn key(&self, tenant: &TenantId) -> SessionKey {
        SessionKey {
            tenant: tenant.clone(),
            session: self.session.clone(),
        }
    }
}

/// What a turn may spend of what the turn that asked for it has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnShare {
    /// Model calls, at most.
    pub steps_max: u32,
    /// Tokens, at most; `None`: as its agent says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u64>,
}

/// The session that answers a call.
pub fn session_of(parent: &SessionKey, call: CallId) -> Result<SessionKey, InvalidId> {
    let session = SessionId::new(format!("{}_{call}", parent.session)).or_else(|_| {
        let hash = blake3::hash(parent.session.as_str().as_bytes()).to_hex();
        SessionId::new(format!("sub_{}_{call}", hash.as_str()))
    })?;
    Ok(SessionKey {
        tenant: parent.tenant.clone(),
        session,
    })
}

/// The message that the call becomes there.
pub fn message_of(call: CallId) -> Result<MessageId, InvalidId> {
    MessageId::new(format!("call-{call}"))
}

/// The command that ends its turn.
pub fn cancel_of(call: CallId) -> Result<CommandId, InvalidId> {
    CommandId::new(format!("cancel-{call}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(session: &str) -> SessionKey {
        SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new(session).unwrap(),
        }
    }

    #[test]
    fn a_child_is_named_after_its_call_however_long_that_name_is() {
        let call: CallId = "1-7-0".parse().unwrap();
        let child = session_of(&key("s1"), call).unwrap();
        assert_eq!(child, key("s1_1-7-0"));
        let long = key(&"s".repeat(128));
        let child = session_of(&long, call).unwrap();
        assert_eq!(child, session_of(&long, call).unwrap());
        let other = key(&format!("{}x", "s".repeat(127)));
        assert_ne!(child, session_of(&other, call).unwrap());
    }
}
