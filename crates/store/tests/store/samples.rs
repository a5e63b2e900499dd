//! Stores and Records for tests of faults.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use steadfast_core::id::{Epoch, NodeId, Seq, SessionId, SessionKey, TenantId, Timestamp};
use steadfast_protocol::record::RecordHash;
use steadfast_store::Stores;
use steadfast_store::clock::TokioClock;
use steadfast_store::fault::{FaultLayer, FaultPlan, Odds};
use steadfast_store::log::{Append, ReadFrom, Tail};
use steadfast_store::memory;

pub(crate) const START: Timestamp = Timestamp(1_900_000_000_000);

pub(crate) fn stores() -> Stores {
    memory::stores(Arc::new(TokioClock::starting_at(START)))
}

pub(crate) fn layer(inner: &Stores, seed: u64, odds: Odds) -> (FaultLayer, Arc<FaultPlan>) {
    let plan = Arc::new(FaultPlan::new(SmallRng::seed_from_u64(seed), odds));
    (FaultLayer::new(inner, Arc::clone(&plan)), plan)
}

pub(crate) fn session(name: &str) -> SessionKey {
    SessionKey {
        tenant: TenantId::new("t").unwrap(),
        session: SessionId::new(name).unwrap(),
    }
}

/// A Record of one event that nobody decodes.
pub(crate) fn append(seq: u64, text: &str) -> Append {
    let bytes = Bytes::from(format!("{seq} {text}"));
    Append {
        hash: RecordHash::of(&bytes),
        bytes,
        first_seq: Seq(seq),
        last_seq: Seq(seq),
        epoch: Epoch(1),
        node: NodeId::new("n").unwrap(),
    }
}

/// The Records of a session as text.
pub(crate) async fn texts(stores: &Stores, session: &SessionKey) -> Vec<String> {
    let from = ReadFrom::After(Tail::EMPTY);
    let records = stores.log.read(session, from, 10_000).await.unwrap();
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    records.iter().map(|record| text(&record.bytes)).collect()
}

pub(crate) async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
