//! A log that fails, or is damaged, as it is told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use steadfast_core::id::{Seq, SessionKey};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{Append, AppendError, AroundLog, Log, ReadFrom, StoredRecord, Tail};
use tokio::sync::Notify;

/// What happens to an append instead of being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is done.
    None,
    /// Not written, and the caller is told so.
    Unavailable,
    /// Written, and the caller is told that nobody knows.
    LostAcknowledgement,
    /// Not written, and the caller is told that nobody knows.
    LostRequest,
    /// Not written, and no answer comes.
    HangsBefore,
    /// Written, and no answer comes.
    HangsAfter,
    /// The store's code panics.
    Panics,
}

/// A log that fails as it is told.
pub(crate) struct FaultyLog {
    inner: Arc<dyn Log>,
    state: Mutex<LogState>,
    pub(crate) hung: Notify,
}

#[derive(Default)]
struct LogState {
    appends: u64,
    faults: BTreeMap<u64, Fault>,
    corrupt: Option<SessionKey>,
    corrupt_last_only: bool,
    damaged: BTreeMap<(SessionKey, Seq), Damage>,
    stale_reads: u32,
    unavailable: bool,
}

/// What became of one row, named by its first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Its bytes are not those that were written; they may still be a Record.
    Flipped,
    /// Its bytes are no Record.
    Torn,
    /// It is not there.
    Gone,
    /// Not even the store can read it, nor any other row together with it.
    Unreadable,
}

impl FaultyLog {
    pub(crate) fn new(inner: Arc<dyn Log>) -> Self {
        Self {
            inner,
            state: Mutex::default(),
            hung: Notify::new(),
        }
    }

    /// What happens to the n-th append from now, from 1.
    pub(crate) fn fail(&self, n: u64, fault: Fault) {
        let mut state = self.state.lock().unwrap();
        let at = state.appends + n;
        state.faults.insert(at, fault);
    }

    /// From now on what is read of this session is not what was written.
    pub(crate) fn corrupt(&self, session: &SessionKey) {
        self.state.lock().unwrap().corrupt = Some(session.clone());
    }

    /// The same, of its last Record only.
    pub(crate) fn corrupt_last(&self, session: &SessionKey) {
        let mut state = self.state.lock().unwrap();
        state.corrupt = Some(session.clone());
        state.corrupt_last_only = true;
    }

    /// From now on one row is damaged.
    pub(crate) fn damage(&self, session: &SessionKey, first_seq: Seq, damage: Damage) {
        let mut state = self.state.lock().unwrap();
        state.damaged.insert((session.clone(), first_seq), damage);
    }

    /// All rows are again as they were written.
    pub(crate) fn heal(&self) {
        self.state.lock().unwrap().damaged.clear();
    }

    /// So many reads from now on give nothing, as if what they ask for were not there yet.
    pub(crate) fn stale(&self, reads: u32) {
        self.state.lock().unwrap().stale_reads = reads;
    }

    /// How many of those are to come.
    pub(crate) fn stale_left(&self) -> u32 {
        self.state.lock().unwrap().stale_reads
    }

    /// From now on appends fail, or no longer do.
    pub(crate) fn set_unavailable(&self, unavailable: bool) {
        self.state.lock().unwrap().unavailable = unavailable;
    }

    /// How many appends were tried.
    pub(crate) fn appends(&self) -> u64 {
        self.state.lock().unwrap().appends
    }

    fn next(&self) -> Fault {
        let mut state = self.state.lock().unwrap();
        state.appends += 1;
        let appends = state.appends;
        if state.unavailable {
            return Fault::Unavailable;
        }
        state.faults.remove(&appends).unwrap_or(Fault::None)
    }
}

#[async_trait]
impl AroundLog for FaultyLog {
    fn inner(&self) -> &dyn Log {
        &*self.inner
    }

    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        let fault = self.next();
        let lands = matches!(
            fault,
            Fault::None | Fault::LostAcknowledgement | Fault::HangsAfter
        );
        let done = if lands {
            self.inner.append(session, expected, append).await
        } else {
            Err(AppendError::Conflict)
        };
        match fault {
            Fault::None => done,
            Fault::Unavailable => Err(WriteError::Unavailable("as told".into()).into()),
            Fault::LostAcknowledgement | Fault::LostRequest => {
                Err(WriteError::Unknown("as told".into()).into())
            }
            Fault::Panics => panic!("the store panics, as told"),
            Fault::HangsBefore | Fault::HangsAfter => {
                self.hung.notify_one();
                std::future::pending().await
            }
        }
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let mut records = self
            .inner
            .read(session, from, limit.saturating_add(1))
            .await?;
        let mut state = self.state.lock().unwrap();
        if state.stale_reads > 0 {
            state.stale_reads -= 1;
            return Ok(Vec::new());
        }
        let damage = |record: &StoredRecord| {
            let name = (session.clone(), record.first_seq);
            state.damaged.get(&name).copied()
        };
        records.retain(|record| damage(record) != Some(Damage::Gone));
        records.truncate(limit);
        for record in &mut records {
            match damage(record) {
                Some(Damage::Unreadable) => return Err(ReadError::Corrupt("as told".into())),
                Some(Damage::Flipped) => flip(record),
                Some(Damage::Torn) => record.bytes.truncate(record.bytes.len() - 1),
                Some(Damage::Gone) | None => {}
            }
        }
        if state.corrupt.as_ref() == Some(session) {
            let good = if state.corrupt_last_only {
                records.len().saturating_sub(1)
            } else {
                0
            };
            for record in records.iter_mut().skip(good) {
                flip(record);
            }
        }
        Ok(records)
    }
}

fn flip(record: &mut StoredRecord) {
    let mut bytes = record.bytes.to_vec();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    record.bytes = bytes.into();
}
