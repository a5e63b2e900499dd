//! A log around another one.

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;

use super::{Append, AppendError, Log, ReadFrom, StoredRecord, Tail, TailInfo};
use crate::error::{ReadError, WriteError};

/// Does what the log within does, save for what is written otherwise: to watch a log, or to let it
/// fail. Whatever implements it is a [`Log`].
#[async_trait]
pub trait AroundLog: Send + Sync {
    /// The log within.
    fn inner(&self) -> &dyn Log;

    /// As [`Log::append`].
    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        self.inner().append(session, expected, append).await
    }

    /// As [`Log::tail`].
    async fn tail(&self, session: &SessionKey) -> Result<TailInfo, ReadError> {
        self.inner().tail(session).await
    }

    /// As [`Log::read`].
    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.inner().read(session, from, limit).await
    }
}

#[async_trait]
impl<L: AroundLog> Log for L {
    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        AroundLog::append(self, session, expected, append).await
    }

    async fn tail(&self, session: &SessionKey) -> Result<TailInfo, ReadError> {
        AroundLog::tail(self, session).await
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        AroundLog::read(self, session, from, limit).await
    }

    async fn follow(&self, session: &SessionKey) -> Result<BoxStream<'static, ()>, ReadError> {
        self.inner().follow(session).await
    }

    async fn purge(&self, session: &SessionKey, through: Tail) -> Result<(), WriteError> {
        self.inner().purge(session, through).await
    }
}
