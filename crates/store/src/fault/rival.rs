//! Another owner that takes a session over at the worst moment, and is never heard of again.

use steadfast_core::event::Event;
use steadfast_core::id::{NodeId, Seq, SessionKey, Timestamp};
use steadfast_core::input::Policy;
use steadfast_protocol::record::{self, Cause, Entry, Record, RecordHash};

use crate::active::ActiveIndex;
use crate::log::{Append, Log, ReadFrom};

/// The node that competes in [`super::Fault::Conflict`]. It stands in the active index like any
/// owner that died, so a sweep finds what it took.
pub const RIVAL: &str = "rival";

/// Takes the session over in the rival's name. Nothing happens if it cannot: then somebody else
/// competes already.
pub(super) async fn take_over(log: &dyn Log, active: &dyn ActiveIndex, session: &SessionKey) {
    let (Ok(told), Ok(node)) = (log.tail(session).await, NodeId::new(RIVAL)) else {
        return;
    };
    let (prev, last_seq, epoch) = match &told.last {
        Some(last) => (last.hash, last.last_seq, last.epoch.next()),
        None => (RecordHash::NONE, Seq(0), steadfast_core::id::Epoch(1)),
    };
    let at = last_entry(log, session, last_seq).await;
    let first_seq = last_seq.next();
    let policy = Policy::default();
    let activated = Event::Activated {
        node: node.clone(),
        epoch,
        policy,
    };
    let record = Record {
        first_seq,
        epoch,
        prev,
        entries: vec![Entry {
            cause: Cause::Activate,
            at,
            events: vec![activated],
        }],
    };
    let Ok(bytes) = record::encode(&record) else {
        return;
    };
    let append = Append {
        hash: RecordHash::of(&bytes),
        bytes: bytes.into(),
        first_seq,
        last_seq: first_seq,
        epoch,
        node: node.clone(),
    };
    if active.add(&node, session, at).await.is_ok() {
        // Losing this race is as good a conflict as winning it.
        let _outcome = log.append(session, told.tail, append).await;
    }
}

/// The time of the last entry, so that time does not go back.
async fn last_entry(log: &dyn Log, session: &SessionKey, last_seq: Seq) -> Timestamp {
    let read = log.read(session, ReadFrom::Seq(last_seq), 1).await;
    let last = read.ok().and_then(|records| {
        let record = record::decode(&records.first()?.bytes).ok()?;
        Some(record.entries.last()?.at)
    });
    last.unwrap_or_default()
}
