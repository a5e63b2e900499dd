//! The log on JetStream: a Record is one message, the tail is its number in the stream.
//!
//! The broker compares and appends: a message says which one it expects to be its subject's last.
//! Its answer is read literally; when there is none, nothing is known.

use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use steadfast_core::id::{Epoch, NodeId, Seq, SessionKey};
use steadfast_protocol::record::RecordHash;
use steadfast_store::error::{ReadError, WriteError};
use steadfast_store::log::{
    Append, AppendError, LastRecord, Log, ReadFrom, StoredRecord, Tail, TailInfo,
};

use crate::batch_get::Got;
use crate::fault::{Fault, code};
use crate::headers;
use crate::request::Shared;
use crate::subject::Names;

/// Steps of the search for an event's Record; each halves what is left of a stream.
const SEARCH_STEPS_MAX: usize = 48;
/// A search ends when so few messages of the stream, of all sessions, are left to look through.
const SEARCH_LEFT: u64 = 8;
/// Records that are read at once where a read skips some.
const SKIP_RECORDS: usize = 8;

/// [`Log`] on JetStream.
#[derive(Debug, Clone)]
pub(crate) struct NatsLog {
    connection: Shared,
    names: Arc<Names>,
}

impl NatsLog {
    pub(crate) fn new(connection: Shared, names: Arc<Names>) -> Self {
        Self { connection, names }
    }

    async fn last(&self, session: &SessionKey) -> Result<Option<StreamMessage>, Fault> {
        let stream = self.names.log_stream(session);
        self.connection
            .last(&stream, &self.names.log(session))
            .await
    }

    async fn range(
        &self,
        session: &SessionKey,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Got>, Fault> {
        let stream = self.names.log_stream(session);
        let subject = self.names.log(session);
        self.connection.range(&stream, &subject, from, limit).await
    }

    /// A place in the stream at or before the Record that holds an event, near it.
    ///
    /// A copy that is behind makes it only less near: what it gives is skipped through anyway.
    async fn near(&self, session: &SessionKey, seq: Seq) -> Result<u64, ReadError> {
        let Some(first) = self.range(session, 1, 1).await?.pop() else {
            return Ok(1);
        };
        let (mut low, mut low_seq) = (first.sequence, first_seq(&first)?);
        let Some(last) = self.last(session).await? else {
            return Ok(low);
        };
        let mut high = last.sequence;
        for _ in 0..SEARCH_STEPS_MAX {
            if low_seq >= seq || high.saturating_sub(low) <= SEARCH_LEFT {
                break;
            }
            let middle = low + (high - low) / 2;
            match self.range(session, middle, 1).await?.pop() {
                Some(got) if got.sequence < high && first_seq(&got)? <= seq => {
                    (low, low_seq) = (got.sequence, first_seq(&got)?);
                }
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }

    async fn read_from_event(
        &self,
        session: &SessionKey,
        seq: Seq,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let mut from = self.near(session, seq).await?;
        let mut records = Vec::new();
        while records.len() < limit {
            let left = limit - records.len();
            let page_size = if records.is_empty() {
                SKIP_RECORDS
            } else {
                left
            };
            let page = self.range(session, from, page_size).await?;
            let Some(newest) = page.last() else { break };
            from = newest.sequence.saturating_add(1);
            for got in page {
                if records.len() < limit && last_seq(&got.headers)? >= seq {
                    records.push(stored(got)?);
                }
            }
        }
        Ok(records)
    }
}

#[async_trait]
impl Log for NatsLog {
    async fn append(
        &self,
        session: &SessionKey,
        expected: Tail,
        append: Append,
    ) -> Result<Tail, AppendError> {
        let headers = record_headers(session, expected, &append);
        let subject = self.names.log(session);
        match self
            .connection
            .publish(&subject, headers, append.bytes)
            .await
        {
            // Also when the message was there before, of a time whose answer was lost: its id is
            // that of this session and these bytes.
            Ok(stored) => Ok(Tail(stored.sequence)),
            Err(fault) => match fault.code() {
                Some(
                    code::WRONG_LAST_SEQUENCE
                    | code::WRONG_LAST_SEQUENCE_IN_FLIGHT
                    | code::DUPLICATE_IN_FLIGHT,
                ) => Err(AppendError::Conflict),
                Some(_) | None => Err(WriteError::from(fault).into()),
            },
        }
    }

    async fn tail(&self, session: &SessionKey) -> Result<TailInfo, ReadError> {
        let Some(message) = self.last(session).await? else {
            return Ok(TailInfo {
                tail: Tail::EMPTY,
                last: None,
            });
        };
        Ok(TailInfo {
            tail: Tail(message.sequence),
            last: Some(last_record(&message.headers)?),
        })
    }

    async fn read(
        &self,
        session: &SessionKey,
        from: ReadFrom,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        match from {
            ReadFrom::After(tail) => {
                let from = tail.0.saturating_add(1);
                let page = self.range(session, from, limit).await?;
                page.into_iter().map(stored).collect()
            }
            ReadFrom::Seq(seq) => self.read_from_event(session, seq, limit).await,
        }
    }

    async fn follow(&self, session: &SessionKey) -> Result<BoxStream<'static, ()>, ReadError> {
        let subject = self.names.committed(session);
        let told = self.connection.client.subscribe(subject).await;
        let told = told.map_err(|error| ReadError::Unavailable(error.to_string()))?;
        let link = self.connection.link();
        let signals = stream::unfold((told, link), |(mut told, mut link)| async {
            tokio::select! {
                // After a break, what was committed meanwhile was not told.
                changed = link.changed() => changed.ok()?,
                news = told.next() => {
                    news?;
                    // One look answers for all that was told so far.
                    while let Some(Some(_)) = told.next().now_or_never() {}
                }
            }
            Some(((), (told, link)))
        });
        Ok(stream::once(async {}).chain(signals).boxed())
    }

    async fn purge(&self, session: &SessionKey, through: Tail) -> Result<(), WriteError> {
        let Some(last) = self.last(session).await? else {
            return Ok(());
        };
        // A last Record that is read too old keeps more, never less.
        let below = through.0.saturating_add(1).min(last.sequence);
        let (stream, subject) = (self.names.log_stream(session), self.names.log(session));
        Ok(self
            .connection
            .purge(&stream, &subject, Some(below))
            .await?)
    }
}

fn record_headers(session: &SessionKey, expected: Tail, append: &Append) -> HeaderMap {
    headers::map(&[
        (headers::EXPECTED, &expected.0),
        (headers::MESSAGE_ID, &format!("{session}/{}", append.hash)),
        (headers::HASH, &append.hash),
        (headers::FIRST_SEQ, &append.first_seq),
        (headers::LAST_SEQ, &append.last_seq),
        (headers::EPOCH, &append.epoch),
        (headers::NODE, &append.node),
    ])
}

fn missing(name: &str) -> ReadError {
    ReadError::Corrupt(format!("a record without a good header {name}"))
}

fn number(map: &HeaderMap, name: &str) -> Result<u64, ReadError> {
    headers::number(map, name).ok_or_else(|| missing(name))
}

fn first_seq(got: &Got) -> Result<Seq, ReadError> {
    number(&got.headers, headers::FIRST_SEQ).map(Seq)
}

fn last_seq(map: &HeaderMap) -> Result<Seq, ReadError> {
    number(map, headers::LAST_SEQ).map(Seq)
}

fn stored(got: Got) -> Result<StoredRecord, ReadError> {
    Ok(StoredRecord {
        tail: Tail(got.sequence),
        first_seq: first_seq(&got)?,
        bytes: got.payload,
    })
}

fn last_record(map: &HeaderMap) -> Result<LastRecord, ReadError> {
    let text = |name| headers::text(map, name).ok_or_else(|| missing(name));
    let hash = record_hash(text(headers::HASH)?).ok_or_else(|| missing(headers::HASH))?;
    let node = NodeId::new(text(headers::NODE)?).map_err(|_| missing(headers::NODE))?;
    Ok(LastRecord {
        hash,
        last_seq: last_seq(map)?,
        epoch: Epoch(number(map, headers::EPOCH)?),
        node,
    })
}

fn record_hash(text: &str) -> Option<RecordHash> {
    let text = serde_json::Value::String(text.to_owned());
    serde_json::from_value(text).ok()
}
