//! The log in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;

use crate::error::{ReadError, WriteError};
use crate::local::{Signals, lock};
use crate::log::{Append, AppendError, LastRecord, Log, ReadFrom, StoredRecord, Tail, TailInfo};

/// Logs of all sessions in memory. Tokens are drawn from one sequence over all sessions, so that
/// nobody comes to rely on tokens without gap.
#[derive(Debug, Default)]
pub struct MemoryLog {
    state: Mutex<State>,
    signals: Signals,
}

#[derive(Debug, Default)]
struct State {
    tails: u64,
    sessions: BTreeMap<SessionKey, Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    /// The token that the append expected.
    after: Tail,
    tail: Tail,
    append: Append,
}

impl State {
    fn append(
        &mut self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        let last = self.sessions.get(session).and_then(|kept| kept.last());
        if let Some(last) = last
            && last.after == expected
            && last.append.hash == append.hash
        {
            return Ok(last.tail);
        }
        if expected != last.map_or(Tail::EMPTY, |last| last.tail) {
            return Err(AppendError::Conflict);
        }
        self.tails += 1;
        let tail = Tail(self.tails);
        let kept = Kept {
            after: expected,
            tail,
            append,
        };
        self.sessions.entry(session.clone()).or_default().push(kept);
        Ok(tail)
    }

    fn kept(&self, session: &SessionKey) -> &[Kept] {
        self.sessions.get(session).map_or(&[], Vec::as_slice)
    }
}

#[async_trait]
impl Log for MemoryLog {
    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        let tail = lock(&self.state).append(session, expected, append)?;
        self.signals.signal(session);
        Ok(tail)
    }

    async fn tail(&self, session: &SessionKey) -> Result<TailInfo, ReadError> {
        let state = lock(&self.state);
        let last = state.kept(session).last();
        Ok(TailInfo {
            tail: last.map_or(Tail::EMPTY, |last| last.tail),
            last: last.map(|last| LastRecord {
                hash: last.append.hash,
                last_seq: last.append.last_seq,
                epoch: last.append.epoch,
                node: last.append.node.clone(),
            }),
        })
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let state = lock(&self.state);
        let kept = state.kept(session);
        let first = match from {
            ReadFrom::After(tail) => kept.partition_point(|kept| kept.tail <= tail),
            ReadFrom::Seq(seq) => kept.partition_point(|kept| kept.append.last_seq < seq),
        };
        let stored = |kept: &Kept| StoredRecord {
            tail: kept.tail,
            first_seq: kept.append.first_seq,
            bytes: kept.append.bytes.clone(),
        };
        Ok(kept.iter().skip(first).take(limit).map(stored).collect())
    }

    async fn follow(&self, session: &SessionKey) -> Result<BoxStream<'static, ()>, ReadError> {
        Ok(self.signals.follow(session))
    }

    async fn purge(&self, session: &SessionKey, through: Tail) -> Result<(), WriteError> {
        let mut state = lock(&self.state);
        if let Some(kept) = state.sessions.get_mut(session) {
            let removable = kept.len().saturating_sub(1);
            let through = kept.partition_point(|kept| kept.tail <= through);
            kept.drain(..through.min(removable));
        }
        Ok(())
    }
}
