//! Keys of rows: compact, and in the order of their parts.
//!
//! A session's rows begin with `tenant 0 session 0`. No id holds a zero byte, so one session's rows
//! are one range, sessions stand in the order of their ids, and no range holds another's rows.

use steadfast_core::id::{NodeId, SessionId, SessionKey, TenantId};

/// Ends an id; lower than every character of one.
const END: u8 = 0;

/// Keys from `first` up to, not including, `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The lowest key.
    pub(crate) first: Vec<u8>,
    /// The first key after.
    pub(crate) end: Vec<u8>,
}

impl KeyRange {
    /// All keys that begin with `prefix`, which ends with [`END`].
    fn of(prefix: Vec<u8>) -> Self {
        let mut end = prefix.clone();
        end.pop();
        end.push(END + 1);
        Self { first: prefix, end }
    }

    /// All keys that begin with an id.
    pub(crate) fn of_ids() -> Self {
        Self {
            first: Vec::new(),
            // No id holds it.
            end: vec![u8::MAX],
        }
    }

    /// The part after `key`, which stands in the range.
    pub(crate) fn after(&self, key: &[u8]) -> Self {
        let mut first = key.to_vec();
        first.push(0);
        Self {
            first,
            end: self.end.clone(),
        }
    }
}

/// The beginning of a session's keys.
pub(crate) fn session(session: &SessionKey) -> Vec<u8> {
    let (tenant, id) = (session.tenant.as_str(), session.session.as_str());
    // Room for what most keys add.
    let mut key = Vec::with_capacity(tenant.len() + id.len() + 2 + 8);
    key.extend_from_slice(tenant.as_bytes());
    key.push(END);
    key.extend_from_slice(id.as_bytes());
    key.push(END);
    key
}

/// A numbered row of a session; rows of one session stand in the order of their numbers.
pub(crate) fn numbered(session_key: &SessionKey, number: u64) -> Vec<u8> {
    let mut key = session(session_key);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// All rows of a session.
pub(crate) fn of_session(session_key: &SessionKey) -> KeyRange {
    KeyRange::of(session(session_key))
}

/// All rows of a tenant.
pub(crate) fn of_tenant(tenant: &TenantId) -> KeyRange {
    let mut prefix = tenant.as_str().as_bytes().to_vec();
    prefix.push(END);
    KeyRange::of(prefix)
}

/// A node's row for a session.
pub(crate) fn of_node_session(node: &NodeId, session_key: &SessionKey) -> Vec<u8> {
    let mut key = of_node(node).first;
    key.extend_from_slice(&session(session_key));
    key
}

/// All rows of a node.
pub(crate) fn of_node(node: &NodeId) -> KeyRange {
    let mut prefix = node.as_str().as_bytes().to_vec();
    prefix.push(END);
    KeyRange::of(prefix)
}

/// Splits off the session that a key begins with; `None`: no such key was ever written here.
pub(crate) fn split_session(key: &[u8]) -> Option<(SessionKey, &[u8])> {
    let (tenant, rest) = split_id(key)?;
    let (session, rest) = split_id(rest)?;
    let session = SessionKey {
        tenant: TenantId::new(tenant).ok()?,
        session: SessionId::new(session).ok()?,
    };
    Some((session, rest))
}

/// Splits off the node that a key begins with.
pub(crate) fn split_node(key: &[u8]) -> Option<(NodeId, &[u8])> {
    let (node, rest) = split_id(key)?;
    Some((NodeId::new(node).ok()?, rest))
}

/// Splits off the session and the number that make up a key.
pub(crate) fn split_numbered(key: &[u8]) -> Option<(SessionKey, u64)> {
    let (session, rest) = split_session(key)?;
    Some((session, u64::from_be_bytes(rest.try_into().ok()?)))
}

fn split_id(key: &[u8]) -> Option<(&str, &[u8])> {
    let at = key.iter().position(|&byte| byte == END)?;
    let (id, rest) = key.split_at_checked(at)?;
    Some((std::str::from_utf8(id).ok()?, rest.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key_of(tenant: &str, session: &str) -> SessionKey {
        SessionKey {
            tenant: TenantId::new(tenant).unwrap(),
            session: SessionId::new(session).unwrap(),
        }
    }

    proptest! {
        #[test]
        fn keys_stand_in_the_order_of_their_parts(
            a in ("[A-Za-z0-9_-]{1,3}", "[A-Za-z0-9_-]{1,3}", 0u64..300),
            b in ("[A-Za-z0-9_-]{1,3}", "[A-Za-z0-9_-]{1,3}", 0u64..300),
        ) {
            let (left, right) = (key_of(&a.0, &a.1), key_of(&b.0, &b.1));
            let (left_key, right_key) = (numbered(&left, a.2), numbered(&right, b.2));
            prop_assert_eq!(
                left_key.cmp(&right_key),
                (&left, a.2).cmp(&(&right, b.2))
            );
            prop_assert_eq!(split_numbered(&left_key), Some((left.clone(), a.2)));
            let range = of_session(&left);
            let inside = range.first <= right_key && right_key < range.end;
            prop_assert_eq!(inside, left == right);
            let range = of_tenant(&left.tenant);
            let inside = range.first <= right_key && right_key < range.end;
            prop_assert_eq!(inside, left.tenant == right.tenant);
        }

        #[test]
        fn splitting_any_bytes_is_safe(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some((session, rest)) = split_session(&bytes) {
                let mut again = super::session(&session);
                again.extend_from_slice(rest);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
