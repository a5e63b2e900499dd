//! Sessions, Records and names for the cases. Stores do not look into bytes, so any will do.

use bytes::Bytes;
use steadfast_core::id::{
    AgentName, Epoch, InvalidId, NodeId, Seq, SessionId, SessionKey, TenantId,
};
use steadfast_protocol::record::RecordHash;

use super::{Outcome, comes_to_show};
use crate::log::{Append, LastRecord, ReadFrom, StoredRecord, Tail};
use crate::stores::Stores;

pub(crate) fn tenant(name: &str) -> Result<TenantId, InvalidId> {
    TenantId::new(name)
}

pub(crate) fn node(name: &str) -> Result<NodeId, InvalidId> {
    NodeId::new(name)
}

pub(crate) fn agent(name: &str) -> Result<AgentName, InvalidId> {
    AgentName::new(name)
}

/// A session of tenant `t`.
pub(crate) fn session(name: &str) -> Result<SessionKey, InvalidId> {
    session_of("t", name)
}

pub(crate) fn session_of(tenant_name: &str, name: &str) -> Result<SessionKey, InvalidId> {
    Ok(SessionKey {
        tenant: tenant(tenant_name)?,
        session: SessionId::new(name)?,
    })
}

/// A Record of `events` events from `first_seq` on, in epoch 1, written by node `n`.
pub(crate) fn record(first_seq: u64, events: u64, text: &str) -> Result<Append, InvalidId> {
    // Zero and high bytes, so that a store that takes bytes for text is found out.
    let mut bytes = vec![0, 1, 0xff, 0xfe, b'\n', b'\r'];
    bytes.extend(first_seq.to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
    Ok(Append {
        hash: RecordHash::of(&bytes),
        bytes: Bytes::from(bytes),
        first_seq: Seq(first_seq),
        last_seq: Seq(first_seq + events.max(1) - 1),
        epoch: Epoch(1),
        node: node("n")?,
    })
}

/// What `tail` tells of a Record.
pub(crate) fn last(append: &Append) -> LastRecord {
    LastRecord {
        hash: append.hash,
        last_seq: append.last_seq,
        epoch: append.epoch,
        node: append.node.clone(),
    }
}

/// How a Record is read.
pub(crate) fn stored(tail: Tail, append: &Append) -> StoredRecord {
    StoredRecord {
        tail,
        first_seq: append.first_seq,
        bytes: append.bytes.clone(),
    }
}

/// A read, which may be behind, comes to show exactly these Records.
pub(crate) async fn reads(
    stores: &Stores,
    session: &SessionKey,
    from: ReadFrom,
    limit: usize,
    expected: &[StoredRecord],
) -> Outcome {
    comes_to_show(expected.to_vec(), || async {
        Ok(stores.log.read(session, from, limit).await?)
    })
    .await
}

/// A read of everything comes to show exactly these Records.
pub(crate) async fn holds(
    stores: &Stores,
    session: &SessionKey,
    expected: &[StoredRecord],
) -> Outcome {
    reads(
        stores,
        session,
        ReadFrom::After(Tail::EMPTY),
        1_000,
        expected,
    )
    .await
}
