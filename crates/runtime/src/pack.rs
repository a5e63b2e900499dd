//! Runs of transcript items as blobs, so that a snapshot's size does not grow with the history.
//!
//! ```text
//!   items in memory   u r R r R r R r R r R r R   (user, replies, results)
//!   in a snapshot     [ packed ][ packed ] r R r   full chunks are blobs, named by their hash
//! ```
//!
//! Chunks are closed at a size, counted from the start, and never change: the next snapshot names
//! the same blobs again and writes only new ones.

pub(crate) mod receipts;

use std::sync::Arc;

use bytes::Bytes;
use imbl::Vector;
use steadfast_core::command::PackedItems;
use steadfast_core::content::{BlobHash, BlobRef};
use steadfast_core::id::Seq;
use steadfast_core::receipt::ReceiptRun;
use steadfast_core::session::Session;
use steadfast_core::transcript::{Item, ItemBody};
use steadfast_protocol::EncodeError;
use steadfast_store::Stores;

use crate::open::OpenError;
use receipts::ReceiptRuns;

/// A chunk is closed once its JSON has this many bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// What the core counts for an item besides its content.
const FRAME_TOKENS: u64 = 4;

/// Remembers the chunks of the last packing, so that they are not encoded again.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    chunks: Vec<Chunk>,
    receipts: ReceiptRuns,
}

#[derive(Debug, Clone)]
struct Chunk {
    packed: PackedItems,
    /// Tokens of its items.
    tokens: u64,
}

/// A session with its older items and receipts packed, and the blobs that must be written first.
pub(crate) struct Packing {
    pub(crate) session: Session,
    pub(crate) receipts: Vec<ReceiptRun>,
    pub(crate) blobs: Vec<Bytes>,
}

impl Packer {
    /// A packer for a session that was opened from a snapshot with these receipts beside it.
    pub(crate) fn knowing(receipts: ReceiptRuns) -> Self {
        Self {
            chunks: Vec::new(),
            receipts,
        }
    }

    /// Packs what is worth it.
    pub(crate) fn pack(&mut self, session: &Session) -> Result<Packing, EncodeError> {
        let mut left: Vector<Arc<Item>> = session.transcript.items.clone();
        let mut items = Vector::new();
        // What came packed out of a snapshot or a fork stays so.
        while let Some(item) = left.front()
            && matches!(
                item.body,
                ItemBody::Packed { .. } | ItemBody::Summary { .. }
            )
        {
            items.push_back(Arc::clone(item));
            left.pop_front();
        }
        let known = self
            .chunks
            .iter()
            .take_while(|chunk| chunk.take_from(&mut left))
            .count();
        self.chunks.truncate(known);
        let mut blobs = self.close_chunks(&mut left, session);
        items.extend(self.chunks.iter().map(Chunk::item));
        items.append(left);
        let packed = self.receipts.pack(&session.receipts)?;
        blobs.extend(packed.blobs);
        let mut session = session.clone();
        session.transcript.items = items;
        session.receipts = packed.receipts;
        Ok(Packing {
            session,
            receipts: packed.runs,
            blobs,
        })
    }

    /// Takes full chunks from the front of `left`.
    fn close_chunks(&mut self, left: &mut Vector<Arc<Item>>, session: &Session) -> Vec<Bytes> {
        let compacted_through = session
            .compaction
            .as_ref()
            .map(|compaction| compaction.through);
        let mut blobs = Vec::new();
        let mut open = OpenChunk::default();
        let all = left.clone();
        for (item, next) in all.iter().zip(all.iter().skip(1)) {
            // Nothing of ours refuses to be JSON; if it ever does, the rest stays unpacked.
            if matches!(item.body, ItemBody::Packed { .. }) || !open.add(item) {
                break;
            }
            let at_boundary = compacted_through == Some(item.seq);
            let splits_step =
                matches!(&item.body, ItemBody::Reply { calls, .. } if !calls.is_empty());
            let may_end = !splits_step && next.seq > item.seq;
            if may_end && (open.json.len() >= CHUNK_BYTES || at_boundary) {
                let closed = std::mem::take(&mut open);
                let (chunk, bytes) = closed.close();
                *left = left.skip(chunk.packed.items as usize);
                self.chunks.push(chunk);
                blobs.push(bytes);
            }
        }
        blobs
    }
}

impl Chunk {
    /// Takes this chunk's items from the front, if exactly they stand there.
    fn take_from(&self, left: &mut Vector<Arc<Item>>) -> bool {
        let count = self.packed.items as usize;
        let first = left.front().map(|item| item.seq);
        let last = count
            .checked_sub(1)
            .and_then(|last| left.get(last))
            .map(|item| item.seq);
        let same = first == Some(self.packed.first_seq) && last == Some(self.packed.last_seq);
        if same {
            *left = left.skip(count);
        }
        same
    }

    fn item(&self) -> Arc<Item> {
        Arc::new(Item {
            seq: self.packed.last_seq,
            tokens: self.tokens,
            body: ItemBody::Packed {
                packed: self.packed.clone(),
            },
        })
    }
}

/// A chunk in the making.
#[derive(Default)]
struct OpenChunk {
    json: Vec<u8>,
    items: u32,
    first_seq: Seq,
    last_seq: Seq,
    tokens: u64,
}

impl OpenChunk {
    fn add(&mut self, item: &Item) -> bool {
        self.json.push(if self.items == 0 { b'[' } else { b',' });
        if serde_json::to_writer(&mut self.json, item).is_err() {
            return false;
        }
        if self.items == 0 {
            self.first_seq = item.seq;
        }
        self.last_seq = item.seq;
        self.items += 1;
        self.tokens = self.tokens.saturating_add(item.tokens);
        true
    }

    fn close(mut self) -> (Chunk, Bytes) {
        self.json.push(b']');
        let blob = BlobRef {
            hash: BlobHash::of(&self.json),
            size_bytes: self.json.len() as u64,
        };
        let packed = PackedItems {
            blob,
            items: self.items,
            first_seq: self.first_seq,
            last_seq: self.last_seq,
            // Together with its own frame, the packed run counts what its items counted.
            tokens: self.tokens.saturating_sub(FRAME_TOKENS),
        };
        let chunk = Chunk {
            packed,
            tokens: self.tokens,
        };
        (chunk, Bytes::from(self.json))
    }
}

/// Everything of a session as packed runs, for a fork; nothing stays unpacked.
pub(crate) fn pack_all(items: &Vector<Arc<Item>>) -> Option<(Vec<PackedItems>, Vec<Bytes>)> {
    let (mut packs, mut blobs) = (Vec::new(), Vec::new());
    let mut open = OpenChunk::default();
    let mut items = items.iter().peekable();
    while let Some(item) = items.next() {
        if let ItemBody::Packed { packed } = &item.body {
            packs.push(packed.clone());
            continue;
        }
        if !open.add(item) {
            return None;
        }
        let splits_step = matches!(&item.body, ItemBody::Reply { calls, .. } if !calls.is_empty());
        let ends = items
            .peek()
            .is_none_or(|next| matches!(next.body, ItemBody::Packed { .. }));
        if ends || (open.json.len() >= CHUNK_BYTES && !splits_step) {
            let (chunk, bytes) = std::mem::take(&mut open).close();
            packs.push(chunk.packed);
            blobs.push(bytes);
        }
    }
    Some((packs, blobs))
}

/// Makes sure that no packed run goes over the end of `through`, so that all up to there can be
/// replaced: the run that does is unpacked.
pub(crate) async fn cut_after(
    session: &mut Session,
    through: Seq,
    stores: &Stores,
) -> Result<(), OpenError> {
    let over = session.transcript.items.iter().position(|item| {
        matches!(&item.body, ItemBody::Packed { packed }
            if packed.first_seq <= through && through < item.seq)
    });
    let Some(index) = over else {
        return Ok(());
    };
    let Some(item) = session.transcript.items.get(index).cloned() else {
        return Ok(());
    };
    let ItemBody::Packed { packed } = &item.body else {
        return Ok(());
    };
    let inner = unpack(session, packed, stores).await?;
    let mut items = session.transcript.items.clone();
    let rest = items.split_off(index + 1);
    items.pop_back();
    items.extend(inner);
    items.append(rest);
    session.transcript.items = items;
    Ok(())
}

/// The items of a packed run that still count.
pub(crate) async fn unpack(
    session: &Session,
    packed: &PackedItems,
    stores: &Stores,
) -> Result<Vec<Arc<Item>>, OpenError> {
    let missing = |detail: String| OpenError::Quarantined {
        code: "history_damaged",
        detail,
    };
    let hash = packed.blob.hash;
    let bytes = stores.blobs.get(&session.key, hash).await?;
    let bytes = bytes.ok_or_else(|| missing(format!("blob {hash} is gone")))?;
    let items: Vec<Arc<Item>> = serde_json::from_slice(&bytes)
        .map_err(|error| missing(format!("blob {hash} holds no items: {error}")))?;
    let counts = |item: &Arc<Item>| item.seq <= packed.last_seq;
    Ok(items.into_iter().filter(counts).collect())
}

#[cfg(test)]
mod tests {
    use steadfast_core::content::{Content, ContentPart, Stored};
    use steadfast_core::id::{MessageId, SessionId, SessionKey, TenantId, TurnId};
    use steadfast_core::session::Compaction;

    use super::*;

    fn session(items: impl IntoIterator<Item = u64>) -> Session {
        let key = SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new("s").unwrap(),
        };
        let mut session = Session::new(key);
        session.transcript.items = items.into_iter().map(said).collect();
        session.transcript.tokens = 10 * session.transcript.items.len() as u64;
        session
    }

    /// An item of some 10 KB.
    fn said(seq: u64) -> Arc<Item> {
        let text = format!("{seq} {}", "x".repeat(10_000));
        let content: Content = vec![Stored::Inline(ContentPart::Text { text })];
        Arc::new(Item {
            seq: Seq(seq),
            tokens: 10,
            body: ItemBody::User {
                turn: TurnId(Seq(seq)),
                message: MessageId::new("m").unwrap(),
                content: Arc::new(content),
            },
        })
    }

    fn reply_with_call(seq: u64) -> Arc<Item> {
        let call = serde_json::json!({
            "id": "1-1-0", "provider_call_id": "c", "tool": "t", "input": { "inline": { "json": {} } }
        });
        Arc::new(Item {
            seq: Seq(seq),
            tokens: 10,
            body: ItemBody::Reply {
                turn: TurnId(Seq(1)),
                step: 1,
                wire: "w".into(),
                model: "m".into(),
                parts: Vec::new(),
                calls: vec![serde_json::from_value(call).unwrap()],
            },
        })
    }

    /// First and last event of each packed run, and the events of the items after them.
    fn shape(session: &Session) -> (Vec<(u64, u64)>, Vec<u64>) {
        let (mut runs, mut rest) = (Vec::new(), Vec::new());
        for item in &session.transcript.items {
            match &item.body {
                ItemBody::Packed { packed } => {
                    runs.push((packed.first_seq.0, packed.last_seq.0));
                }
                _ => rest.push(item.seq.0),
            }
        }
        (runs, rest)
    }

    #[test]
    fn full_chunks_are_packed_and_the_rest_stays() {
        let packing = Packer::default().pack(&session(1..=16)).unwrap();
        let expected = (vec![(1, 7), (8, 14)], vec![15, 16]);
        assert_eq!(shape(&packing.session), expected);
        assert_eq!(packing.blobs.len(), 2);
        let tokens: u64 = packing
            .session
            .transcript
            .items
            .iter()
            .map(|item| item.tokens)
            .sum();
        assert_eq!(tokens, 160);
    }

    #[test]
    fn what_was_packed_is_not_written_again() {
        let mut packer = Packer::default();
        let first = packer.pack(&session(1..=16)).unwrap();
        let second = packer.pack(&session(1..=23)).unwrap();
        assert_eq!(second.blobs.len(), 1);
        assert_eq!(
            shape(&second.session),
            (vec![(1, 7), (8, 14), (15, 21)], vec![22, 23])
        );
        let from_scratch = Packer::default().pack(&session(1..=23)).unwrap();
        assert_eq!(from_scratch.session, second.session);
        assert_eq!(from_scratch.blobs[..2], first.blobs[..]);
    }

    #[test]
    fn a_chunk_that_was_rewound_is_forgotten() {
        let mut packer = Packer::default();
        packer.pack(&session(1..=16)).unwrap();
        let packing = packer.pack(&session((1..=10).chain(20..=30))).unwrap();
        assert_eq!(shape(&packing.session).0, [(1, 7), (8, 23), (24, 30)][..2]);
    }

    #[test]
    fn what_came_packed_stays_packed() {
        let packed = Packer::default().pack(&session(1..=16)).unwrap().session;
        let mut grown = packed.clone();
        grown.transcript.items.extend((17..=25).map(said));
        let packing = Packer::default().pack(&grown).unwrap();
        assert_eq!(shape(&packing.session).0, [(1, 7), (8, 14), (15, 21)]);
        assert_eq!(packing.blobs.len(), 1);
    }

    #[test]
    fn a_chunk_ends_neither_within_a_step_nor_beyond_a_compaction() {
        let mut within_step = session(1..=6);
        within_step.transcript.items.push_back(said(7));
        within_step.transcript.items.set(6, reply_with_call(7));
        within_step.transcript.items.extend((8..=9).map(said));
        let packing = Packer::default().pack(&within_step).unwrap();
        assert_eq!(shape(&packing.session), (vec![(1, 8)], vec![9]));
        let mut compacting = session(1..=9);
        compacting.compaction = Some(Compaction {
            number: 1,
            attempt: 1,
            through: Seq(3),
            retry_at: None,
        });
        let packing = Packer::default().pack(&compacting).unwrap();
        assert_eq!(shape(&packing.session).0, [(1, 3)]);
    }
}
