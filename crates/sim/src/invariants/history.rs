//! The log of one session, watched Record by Record: the same check for a run of the simulator, as
//! it goes, and for a log that was read from a store when all was over.

use steadfast_core::apply;
use steadfast_core::event::Event;
use steadfast_core::id::{SessionKey, Timestamp};
use steadfast_core::session::Session;
use steadfast_protocol::record::{Record, RecordHash};

use super::{Seen, Watch};

/// What a session's committed Records add up to, and the promises watched over it.
pub struct History {
    log: Session,
    last_record: RecordHash,
    watch: Watch,
}

impl History {
    /// Of a session without Records.
    pub fn new(key: &SessionKey) -> Self {
        Self {
            log: Session::new(key.clone()),
            last_record: RecordHash::default(),
            watch: Watch::new(),
        }
    }

    /// The fold of what was committed so far.
    pub fn log(&self) -> &Session {
        &self.log
    }

    /// Whether these bytes are the newest Record.
    pub fn ends_with(&self, bytes: &[u8]) -> bool {
        self.last_record == RecordHash::of(bytes)
    }

    /// Something happened beside the log; gives the promises that it breaks.
    pub fn saw(&mut self, seen: &Seen<'_>) -> Vec<String> {
        self.watch.observe(seen)
    }

    /// Everything works again and had time to settle; gives the promises that are broken now.
    pub fn settled(&mut self) -> Vec<String> {
        self.watch.observe(&Seen::Settled { log: &self.log })
    }

    /// Takes the next committed Record, of these bytes; gives the promises that it breaks. `each` is
    /// shown every fact with the state after it.
    pub fn record(
        &mut self,
        record: &Record,
        bytes: &[u8],
        mut each: impl FnMut(&Session, Timestamp, &Event),
    ) -> Vec<String> {
        let Self {
            log,
            last_record,
            watch,
        } = self;
        let mut broken = watch.observe(&Seen::Record {
            before: log,
            record,
            bytes: bytes.len(),
            prev: *last_record,
        });
        for entry in &record.entries {
            for event in &entry.events {
                broken.extend(watch.observe(&Seen::Event { before: log, event }));
                apply(log, entry.at, event);
                each(log, entry.at, event);
            }
        }
        *last_record = RecordHash::of(bytes);
        broken
    }
}
