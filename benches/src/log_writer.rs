//! Writes what a session decided into its log, as its owner would.

use anyhow::Result;
use bytes::Bytes;
use steadfast_core::id::{NodeId, Seq};
use steadfast_protocol::record::{self, Record, RecordHash};
use steadfast_store::log::{Append, Log, Tail};

use crate::talk::Talk;

/// Where a log ends.
pub(crate) struct LogWriter {
    node: NodeId,
    tail: Tail,
    seq: Seq,
    hash: RecordHash,
}

impl LogWriter {
    /// Of an empty log.
    pub(crate) fn new(node: NodeId) -> Self {
        Self {
            node,
            tail: Tail::EMPTY,
            seq: Seq(0),
            hash: RecordHash::NONE,
        }
    }

    /// Writes all that waits as one Record.
    pub(crate) async fn write(&mut self, log: &dyn Log, talk: &mut Talk) -> Result<()> {
        let record = Record {
            first_seq: self.seq.next(),
            epoch: talk.session.epoch,
            prev: self.hash,
            entries: std::mem::take(&mut talk.entries),
        };
        let bytes = record::encode(&record)?;
        self.hash = RecordHash::of(&bytes);
        self.seq = record.last_seq();
        let append = Append {
            hash: self.hash,
            bytes: Bytes::from(bytes),
            first_seq: record.first_seq,
            last_seq: self.seq,
            epoch: record.epoch,
            node: self.node.clone(),
        };
        self.tail = log.append(&talk.session.key, self.tail, append).await?;
        Ok(())
    }
}
