//! Sessions, Records and stores for the tests.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::id::{Epoch, NodeId, Seq, SessionId, SessionKey, TenantId};
use steadfast_protocol::record::RecordHash;
use steadfast_store::clock::SystemClock;
use steadfast_store::log::Append;
use steadfast_store_redb::{Options, RedbStore};

use crate::disk::Disk;

pub(crate) fn session(name: &str) -> SessionKey {
    SessionKey {
        tenant: TenantId::new("t").unwrap(),
        session: SessionId::new(name).unwrap(),
    }
}

pub(crate) fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

/// A Record of one event.
pub(crate) fn record(seq: u64, text: &str) -> Append {
    let bytes = Bytes::from(format!("{seq} {text}"));
    Append {
        hash: RecordHash::of(&bytes),
        bytes,
        first_seq: Seq(seq),
        last_seq: Seq(seq),
        epoch: Epoch(1),
        node: node("n"),
    }
}

/// Opens a store on a disk.
pub(crate) fn open(disk: &Disk, options: Options) -> RedbStore {
    RedbStore::open_on(disk.source(), options, Arc::new(SystemClock)).unwrap()
}
