//! A row of the log: what the store keeps beside a Record, then the Record's bytes.

use steadfast_core::id::{Epoch, NodeId, Seq};
use steadfast_protocol::record::RecordHash;
use steadfast_store::log::Append;

use crate::fault::Fault;

/// What the store keeps beside a Record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowHead {
    pub(super) first_seq: Seq,
    pub(super) last_seq: Seq,
    pub(super) epoch: Epoch,
    pub(super) hash: RecordHash,
    pub(super) node: NodeId,
}

impl RowHead {
    /// Of a Record that is appended.
    pub(super) fn of(append: &Append) -> Self {
        Self {
            first_seq: append.first_seq,
            last_seq: append.last_seq,
            epoch: append.epoch,
            hash: append.hash,
            node: append.node.clone(),
        }
    }

    /// The row.
    pub(super) fn encode(&self, bytes: &[u8]) -> Vec<u8> {
        let node = self.node.as_str().as_bytes();
        let mut row = Vec::with_capacity(3 * 8 + 32 + 1 + node.len() + bytes.len());
        for number in [self.first_seq.0, self.last_seq.0, self.epoch.0] {
            row.extend_from_slice(&number.to_be_bytes());
        }
        row.extend_from_slice(&self.hash.0);
        // A node id has at most 64 characters, and no zero byte.
        row.extend_from_slice(node);
        row.push(0);
        row.extend_from_slice(bytes);
        row
    }

    /// Reads a row: what is kept beside the Record, and its bytes.
    pub(super) fn decode(row: &[u8]) -> Result<(Self, &[u8]), Fault> {
        Self::split(row).ok_or_else(|| Fault::Corrupt("a row of the log is not one".into()))
    }

    fn split(row: &[u8]) -> Option<(Self, &[u8])> {
        let (&first_seq, rest) = row.split_first_chunk()?;
        let (&last_seq, rest) = rest.split_first_chunk()?;
        let (&epoch, rest) = rest.split_first_chunk()?;
        let (&hash, rest) = rest.split_first_chunk()?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        let (node, rest) = rest.split_at_checked(end)?;
        let head = Self {
            first_seq: Seq(u64::from_be_bytes(first_seq)),
            last_seq: Seq(u64::from_be_bytes(last_seq)),
            epoch: Epoch(u64::from_be_bytes(epoch)),
            hash: RecordHash(hash),
            node: NodeId::new(std::str::from_utf8(node).ok()?).ok()?,
        };
        Some((head, rest.get(1..)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_is_read_as_it_was_written(
            numbers in any::<[u64; 3]>(),
            hash in any::<[u8; 32]>(),
            node in "[A-Za-z0-9_-]{1,64}",
            bytes in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let head = RowHead {
                first_seq: Seq(numbers[0]),
                last_seq: Seq(numbers[1]),
                epoch: Epoch(numbers[2]),
                hash: RecordHash(hash),
                node: NodeId::new(node).unwrap(),
            };
            let row = head.encode(&bytes);
            prop_assert_eq!(RowHead::decode(&row).unwrap(), (head, bytes.as_slice()));
        }

        #[test]
        fn reading_any_bytes_is_safe(row in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Ok((head, bytes)) = RowHead::decode(&row) {
                prop_assert_eq!(head.encode(bytes), row);
            }
        }
    }
}
