//! Logs that break a rule.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_core::id::{SessionId, SessionKey};
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{Append, AppendError, Log, ReadFrom, StoredRecord, Tail, TailInfo};
use steadfast_store::suite::{log, log_fence};

use super::{broken, fails};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bug {
    AppendsWithoutFence,
    AppendsARepetitionAgain,
    ConflictsButWrites,
    PurgesTheLast,
    PurgesNothing,
    PurgesOneTooMany,
    TellsOfTheFirstAsTheLast,
    ReadsAfterTheEvent,
    ReadsOneTooMany,
    SignalsOnce,
    MixesSessions,
}

struct BrokenLog {
    inner: Arc<dyn Log>,
    bug: Bug,
}

impl BrokenLog {
    fn key(&self, session: &SessionKey) -> SessionKey {
        let mut key = session.clone();
        if self.bug == Bug::MixesSessions {
            key.session = SessionId::new("all").unwrap();
        }
        key
    }
}

#[async_trait]
impl Log for BrokenLog {
    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        let session = &self.key(session);
        let told = self.inner.tail(session).await.unwrap();
        let is_repeated = told.last.is_some_and(|last| last.hash == append.hash);
        let expected = match self.bug {
            Bug::AppendsWithoutFence => told.tail,
            Bug::AppendsARepetitionAgain if is_repeated => told.tail,
            _ => expected,
        };
        let outcome = self.inner.append(session, expected, append.clone()).await;
        if self.bug == Bug::ConflictsButWrites && outcome == Err(AppendError::Conflict) {
            self.inner.append(session, told.tail, append).await?;
        }
        outcome
    }

    async fn tail(&self, session: &SessionKey) -> Result<TailInfo, ReadError> {
        let mut told = self.inner.tail(&self.key(session)).await?;
        if let (Bug::TellsOfTheFirstAsTheLast, Some(last)) = (self.bug, &mut told.last) {
            last.last_seq = steadfast_core::id::Seq(1);
        }
        Ok(told)
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let session = &self.key(session);
        match (self.bug, from) {
            (Bug::ReadsAfterTheEvent, ReadFrom::Seq(seq)) => {
                let records = self.inner.read(session, from, limit).await?;
                Ok(records
                    .into_iter()
                    .filter(|record| record.first_seq >= seq)
                    .collect())
            }
            (Bug::ReadsOneTooMany, _) => self.inner.read(session, from, limit + 1).await,
            _ => self.inner.read(session, from, limit).await,
        }
    }

    async fn follow(&self, session: &SessionKey) -> Result<BoxStream<'static, ()>, ReadError> {
        let signals = self.inner.follow(&self.key(session)).await?;
        Ok(match self.bug {
            Bug::SignalsOnce => signals
                .take(1)
                .chain(futures_util::stream::pending())
                .boxed(),
            _ => signals,
        })
    }

    async fn purge(&self, session: &SessionKey, through: Tail) -> Result<(), WriteError> {
        let session = &self.key(session);
        let through = match self.bug {
            Bug::PurgesNothing => Tail::EMPTY,
            Bug::PurgesOneTooMany => Tail(through.0.saturating_add(1)),
            _ => through,
        };
        self.inner.purge(session, through).await?;
        let told = self.inner.tail(session).await.unwrap();
        if self.bug == Bug::PurgesTheLast && told.tail <= through {
            // As good as gone: what is left is a Record that nobody wrote.
            let nothing = Append {
                bytes: bytes::Bytes::new(),
                ..crate::samples::append(1, "")
            };
            let _outcome = self.inner.append(session, told.tail, nothing).await;
        }
        Ok(())
    }
}

fn log_with(bug: Bug) -> steadfast_store::suite::Subject {
    broken(|stores| {
        let inner = Arc::clone(&stores.log);
        stores.log = Arc::new(BrokenLog { inner, bug });
    })
}

#[tokio::test(start_paused = true)]
async fn broken_fences_are_found() {
    let race = log_fence::one_of_many_racing_appends_wins;
    fails("race", race(log_with(Bug::AppendsWithoutFence))).await;
    let stale = log_fence::an_append_after_another_token_conflicts;
    fails("stale", stale(log_with(Bug::AppendsWithoutFence))).await;
    fails("written", stale(log_with(Bug::ConflictsButWrites))).await;
    let repeated = log_fence::a_repeated_append_is_written_once;
    fails("repeated", repeated(log_with(Bug::AppendsARepetitionAgain))).await;
    let doubled = log_fence::a_doubled_append_is_written_once;
    fails("doubled", doubled(log_with(Bug::AppendsARepetitionAgain))).await;
    let purged = log_fence::a_purge_keeps_the_fence;
    fails("purge", purged(log_with(Bug::PurgesTheLast))).await;
    fails("purge", purged(log_with(Bug::PurgesNothing))).await;
}

#[tokio::test(start_paused = true)]
async fn broken_reads_are_found() {
    let tail = log::the_tail_is_never_behind;
    fails("tail", tail(log_with(Bug::TellsOfTheFirstAsTheLast))).await;
    let seq = log::reads_begin_at_the_record_that_holds_an_event;
    fails("seq", seq(log_with(Bug::ReadsAfterTheEvent))).await;
    let page = log::reads_page_from_any_tail;
    fails("page", page(log_with(Bug::ReadsOneTooMany))).await;
    let purged = log::purged_records_are_gone;
    fails("purged", purged(log_with(Bug::PurgesNothing))).await;
    fails("purged", purged(log_with(Bug::PurgesOneTooMany))).await;
    let shared = log::sessions_share_nothing;
    fails("shared", shared(log_with(Bug::MixesSessions))).await;
    let follow = log::a_follower_is_signalled;
    fails("follow", follow(log_with(Bug::SignalsOnce))).await;
}
