//! The three states of an owned session, and the one append between them.
//!
//! ```text
//!   committed  --- Record in flight --->  in flight  --- entries that wait --->  decided
//!   what the log holds                                                what was decided last
//! ```
//!
//! Decisions are made on `decided`. What waits goes into the next Record as soon as none is in
//! flight, so all that is decided during one append is committed by the next: group commit for each
//! session. Nothing here does IO.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::id::{NodeId, Seq, Timestamp};
use steadfast_core::input::{Input, instant};
use steadfast_core::session::Session;
use steadfast_core::{Answer, apply, decide_ahead};
use steadfast_protocol::EncodeError;
use steadfast_protocol::record::{self, Cause, Entry, Record, RecordHash};
use steadfast_store::log::{Append, Tail};
use tokio::time::Instant;

use crate::pack::receipts::Blocks;

/// Entries that wait for the next Record above which no new commands are taken in.
const ENTRIES_RELAXED_MAX: usize = 256;

/// The states of one session as its owner knows them.
pub(crate) struct Journal {
    committed: Arc<Session>,
    flight: Option<Flight>,
    decided: Arc<Session>,
    /// When that was decided.
    decided_at: Instant,
    waiting: Vec<Entry>,
    tail: Tail,
    last_record: RecordHash,
}

/// A Record that was handed to the log.
struct Flight {
    record: Arc<Record>,
    after: Arc<Session>,
    hash: RecordHash,
}

/// What a decision did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decided {
    /// The answer to a command.
    pub(crate) answer: Option<Answer>,
    /// How many events followed.
    pub(crate) events: usize,
}

/// An append to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Departure {
    /// The fence.
    pub(crate) expected: Tail,
    /// The Record.
    pub(crate) append: Append,
}

impl Journal {
    /// The journal of a session as the log holds it.
    pub(crate) fn new(session: Session, tail: Tail, last_record: RecordHash) -> Self {
        let session = Arc::new(session);
        Self {
            committed: Arc::clone(&session),
            flight: None,
            decided: session,
            decided_at: Instant::now(),
            waiting: Vec::new(),
            tail,
            last_record,
        }
    }

    /// The state that the log holds.
    pub(crate) fn committed(&self) -> &Arc<Session> {
        &self.committed
    }

    /// The state after the Record in flight.
    pub(crate) fn in_flight(&self) -> Option<&Arc<Session>> {
        self.flight.as_ref().map(|flight| &flight.after)
    }

    /// The newest state.
    pub(crate) fn decided(&self) -> &Session {
        &self.decided
    }

    /// The fence after the last committed Record.
    pub(crate) fn tail(&self) -> Tail {
        self.tail
    }

    /// Hash of the last committed Record.
    pub(crate) fn last_record(&self) -> RecordHash {
        self.last_record
    }

    /// Whether all that was decided is committed.
    pub(crate) fn is_settled(&self) -> bool {
        self.flight.is_none() && self.waiting.is_empty()
    }

    /// Whether commands may be taken in, or should wait until an append is done.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < ENTRIES_RELAXED_MAX
    }

    /// The newest entry that waits for its Record.
    pub(crate) fn newest(&self) -> Option<&Entry> {
        self.waiting.last()
    }

    /// The session's time. Where this node's clock is behind what is decided, because it is late or an
    /// earlier owner's was ahead, time goes on from there: a deadline is not farther away for it.
    pub(crate) fn now(&self, clock: Timestamp) -> Timestamp {
        let passed_ms = u64::try_from(self.decided_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        instant(clock, self.decided.at.plus_ms(passed_ms))
    }

    /// Decides about an input; what follows waits for the next Record.
    pub(crate) fn decide(&mut self, input: &Input, cause: Cause, clock: Timestamp) -> Decided {
        let at = self.now(clock);
        let (decision, after) = decide_ahead(&self.decided, input, at);
        let events = decision.events.len();
        if events > 0 {
            self.decided = Arc::new(after);
            self.decided_at = Instant::now();
            self.waiting.push(Entry {
                cause,
                at,
                events: decision.events,
            });
        }
        Decided {
            answer: decision.answer,
            events,
        }
    }

    /// Brings back receipts that were kept elsewhere. All states mean what they meant.
    pub(crate) fn put_back(&mut self, blocks: &Blocks) {
        let decided = with_receipts(&self.decided, blocks);
        // States that are the same stay so.
        let other = |state: &Arc<Session>| match Arc::ptr_eq(state, &self.decided) {
            true => Arc::clone(&decided),
            false => with_receipts(state, blocks),
        };
        self.committed = other(&self.committed);
        if let Some(flight) = &mut self.flight {
            flight.after = other(&flight.after);
        }
        self.decided = decided;
    }

    /// Takes back all that was decided and is not on its way to the log.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
        let newest = self.in_flight().unwrap_or(&self.committed);
        self.decided = Arc::clone(newest);
    }

    /// Closes the next Record, if something waits and none is in flight: as many entries as fit.
    pub(crate) fn depart(
        &mut self,
        node: &NodeId,
        bytes_max: usize,
    ) -> Result<Option<Departure>, EncodeError> {
        if self.flight.is_some() || self.waiting.is_empty() {
            return Ok(None);
        }
        let mut record = Record {
            first_seq: self.committed.seq.next(),
            epoch: self.decided.epoch,
            prev: self.last_record,
            entries: std::mem::take(&mut self.waiting),
        };
        let bytes = loop {
            let encoded = record::encode(&record);
            let fits = match &encoded {
                Ok(bytes) => bytes.len() <= bytes_max,
                Err(EncodeError::TooLarge { .. }) => false,
                Err(EncodeError::TooDeep { .. } | EncodeError::Unwritable { .. }) => true,
            };
            // One decision is never divided: what it may hold was bounded before it was made.
            if fits || record.entries.len() == 1 {
                break encoded?;
            }
            let mut rest = record.entries.split_off(record.entries.len() / 2);
            rest.append(&mut self.waiting);
            self.waiting = rest;
        };
        let after = if self.waiting.is_empty() {
            Arc::clone(&self.decided)
        } else {
            Arc::new(fold(&self.committed, &record))
        };
        let departure = Departure {
            expected: self.tail,
            append: Append {
                hash: RecordHash::of(&bytes),
                bytes: Bytes::from(bytes),
                first_seq: record.first_seq,
                last_seq: record.last_seq(),
                epoch: record.epoch,
                node: node.clone(),
            },
        };
        self.flight = Some(Flight {
            record: Arc::new(record),
            after,
            hash: departure.append.hash,
        });
        Ok(Some(departure))
    }

    /// The Record in flight is committed; gives it.
    pub(crate) fn land(&mut self, tail: Tail) -> Option<Arc<Record>> {
        let flight = self.flight.take()?;
        self.committed = flight.after;
        self.last_record = flight.hash;
        self.tail = tail;
        Some(flight.record)
    }

    /// Number of the last event that was decided.
    pub(crate) fn decided_seq(&self) -> Seq {
        self.decided.seq
    }
}

fn with_receipts(session: &Arc<Session>, blocks: &Blocks) -> Arc<Session> {
    if session.receipts.away().is_empty() {
        return Arc::clone(session);
    }
    let mut session = Session::clone(session);
    session.receipts.put_back(blocks.iter().cloned());
    Arc::new(session)
}

/// The state after a Record.
fn fold(session: &Session, record: &Record) -> Session {
    let mut session = session.clone();
    for entry in &record.entries {
        for event in &entry.events {
            apply(&mut session, entry.at, event);
        }
    }
    session
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use steadfast_core::command::{Command, CommandBody, MessageOptions, NewSession};
    use steadfast_core::content::{ContentPart, Stored};
    use steadfast_core::id::{CommandId, SessionId, SessionKey, TenantId};

    use super::*;
    use steadfast_core::limits::RECORD_BYTES_MAX;

    fn journal() -> Journal {
        let key = SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new("s").unwrap(),
        };
        Journal::new(Session::new(key), Tail::EMPTY, RecordHash::NONE)
    }

    fn submit(journal: &mut Journal, n: usize, bytes: usize) {
        let text = "x".repeat(bytes);
        let new = NewSession {
            agent: "helper".parse().unwrap(),
            metadata: Value::Null,
            tags: Vec::new(),
        };
        let id = CommandId::new(format!("m{n}")).unwrap();
        let command = Command {
            id: id.clone(),
            body: CommandBody::Submit {
                content: vec![Stored::Inline(ContentPart::Text { text })],
                options: MessageOptions::default(),
                new: Some(new),
            },
        };
        let receipted = false;
        let input = Input::Command { command, receipted };
        let decided = journal.decide(&input, Cause::Command { id }, Timestamp(1));
        assert!(decided.events > 0);
    }

    fn node() -> NodeId {
        NodeId::new("n").unwrap()
    }

    #[test]
    fn what_is_decided_during_an_append_is_one_record() {
        let mut journal = journal();
        submit(&mut journal, 0, 10);
        let first = journal.depart(&node(), RECORD_BYTES_MAX).unwrap().unwrap();
        submit(&mut journal, 1, 10);
        submit(&mut journal, 2, 10);
        assert_eq!(journal.depart(&node(), RECORD_BYTES_MAX).unwrap(), None);
        journal.land(Tail(7)).unwrap();
        let second = journal.depart(&node(), RECORD_BYTES_MAX).unwrap().unwrap();
        assert_eq!(second.expected, Tail(7));
        assert_eq!(second.append.first_seq, first.append.last_seq.next());
        let record = journal.land(Tail(9)).unwrap();
        assert_eq!((record.entries.len(), record.prev), (2, first.append.hash));
        assert!(journal.is_settled());
        assert_eq!(**journal.committed(), *journal.decided());
    }

    #[test]
    fn a_record_is_closed_at_its_size_and_the_rest_follows() {
        let mut journal = journal();
        for n in 0..40 {
            submit(&mut journal, n, 15_000);
        }
        let mut entries = 0;
        let mut tail = 0;
        while let Some(departure) = journal.depart(&node(), RECORD_BYTES_MAX).unwrap() {
            assert!(departure.append.bytes.len() <= RECORD_BYTES_MAX);
            assert_eq!(departure.expected, Tail(tail));
            let after = Arc::clone(journal.in_flight().unwrap());
            assert_eq!(after.seq, departure.append.last_seq);
            tail += 1;
            entries += journal.land(Tail(tail)).unwrap().entries.len();
            assert_eq!(*journal.committed(), after);
        }
        assert_eq!((entries, tail), (40, 3));
        assert_eq!(**journal.committed(), *journal.decided());
    }

    #[test]
    fn what_is_forgotten_leaves_nothing() {
        let mut journal = journal();
        let before = Session::clone(journal.decided());
        submit(&mut journal, 0, 10);
        journal.forget();
        assert_eq!(*journal.decided(), before);
        assert_eq!(journal.depart(&node(), RECORD_BYTES_MAX).unwrap(), None);
    }
}
