//! Many messages for one question: batched direct gets, which the client lacks.
//!
//! Any server with a copy of the stream may answer, so an answer may be behind the leader. Each
//! answer comes from one copy in the order of the stream, and a copy holds committed messages only.

use async_nats::{HeaderMap, Message, header};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;
use tokio::time::timeout;

use crate::connect::Connection;
use crate::fault::Fault;
use crate::headers;
use crate::request::API;

/// Messages of one answer; the broker gives no more than about a thousand.
const BATCH_MESSAGES_MAX: usize = 256;
/// Bytes of one answer.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Tries to find a copy that is not behind, before the leader is asked for each message.
const FRESH_TRIES: usize = 3;

/// A message as it stands in a stream.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) sequence: u64,
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Bytes,
}

#[derive(Debug, Serialize)]
struct Question<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_by_subj: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    multi_last: &'a [String],
    batch: usize,
    max_bytes: usize,
}

impl Connection {
    /// The messages of a subject from a number on, at most `limit`; may miss the newest, but none
    /// between two that it gives.
    pub(crate) async fn range(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Got>, Fault> {
        let mut all: Vec<Got> = Vec::new();
        while all.len() < limit {
            let next = all
                .last()
                .map_or(from, |got| got.sequence.saturating_add(1));
            let question = Question {
                seq: Some(next.max(1)),
                next_by_subj: Some(subject),
                multi_last: &[],
                batch: BATCH_MESSAGES_MAX.min(limit - all.len()),
                max_bytes: BATCH_BYTES_MAX,
            };
            let page = self.batch(stream, &question).await?;
            if page.is_empty() {
                break;
            }
            all.extend(page);
        }
        Ok(all)
    }

    /// The messages of a subject from a number on up to `through`, at most `limit`; misses none that
    /// its leader has.
    pub(crate) async fn fresh_range(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
        through: u64,
        limit: usize,
    ) -> Result<Vec<Got>, Fault> {
        let mut all: Vec<Got> = Vec::new();
        let done = |all: &[Got]| {
            all.len() >= limit || all.last().is_some_and(|got| got.sequence >= through)
        };
        for _ in 0..FRESH_TRIES {
            let next = all
                .last()
                .map_or(from, |got| got.sequence.saturating_add(1));
            all.extend(self.range(stream, subject, next, limit - all.len()).await?);
            if done(&all) {
                return Ok(all);
            }
        }
        // Every copy asked was behind, or the rest was removed meanwhile: the leader knows.
        while !done(&all) {
            let next = all
                .last()
                .map_or(from, |got| got.sequence.saturating_add(1));
            let Some(message) = self.next(stream, subject, next.max(1)).await? else {
                break;
            };
            all.push(Got {
                sequence: message.sequence,
                subject: message.subject.to_string(),
                headers: message.headers,
                payload: message.payload,
            });
        }
        Ok(all)
    }

    /// The last message of each of these subjects, as some copy has them; in no order.
    pub(crate) async fn last_of_each(
        &self,
        stream: &str,
        subjects: &[String],
    ) -> Result<Vec<Got>, Fault> {
        let mut all = Vec::new();
        for chunk in subjects.chunks(BATCH_MESSAGES_MAX) {
            let question = Question {
                seq: None,
                next_by_subj: None,
                multi_last: chunk,
                batch: chunk.len(),
                max_bytes: BATCH_BYTES_MAX,
            };
            let got = self.batch(stream, &question).await?;
            let missing = got.len() < chunk.len();
            all.extend(got);
            if !missing {
                continue;
            }
            // Cut off by its size, behind, or removed: the leader tells.
            for subject in chunk {
                let has = |got: &Got| got.subject == *subject;
                if all.iter().any(has) {
                    continue;
                }
                if let Some(message) = self.last(stream, subject).await? {
                    all.push(Got {
                        sequence: message.sequence,
                        subject: message.subject.to_string(),
                        headers: message.headers,
                        payload: message.payload,
                    });
                }
            }
        }
        Ok(all)
    }

    async fn batch(&self, stream: &str, question: &Question<'_>) -> Result<Vec<Got>, Fault> {
        if question.batch == 0 {
            return Ok(Vec::new());
        }
        self.ready().await?;
        let asked = self.ask_batch(stream, question);
        timeout(self.request_timeout * 2, asked)
            .await
            .map_err(|_| Fault::Unavailable("no whole answer in time".to_owned()))?
    }

    async fn ask_batch(&self, stream: &str, question: &Question<'_>) -> Result<Vec<Got>, Fault> {
        let unavailable = |error: &dyn std::error::Error| Fault::Unavailable(error.to_string());
        let bytes =
            serde_json::to_vec(question).map_err(|error| Fault::Unreadable(error.to_string()))?;
        let inbox = self.client.new_inbox();
        let mut answers = self
            .client
            .subscribe(inbox.clone())
            .await
            .map_err(|error| unavailable(&error))?;
        self.client
            .publish_with_reply(format!("{API}.DIRECT.GET.{stream}"), inbox, bytes.into())
            .await
            .map_err(|error| unavailable(&error))?;
        let mut all: Vec<Got> = Vec::new();
        while let Some(answer) = answers.next().await {
            match answer.status.map(|status| status.as_u16()) {
                None => all.push(got(answer, all.last())?),
                // The end: all was sent. A copy of an older release may leave the mark out after
                // the last; the broker this is made for does not.
                Some(204) => return Ok(all),
                Some(404) => return Ok(Vec::new()),
                Some(503) => {
                    return Err(Fault::Unavailable(
                        "no server answers for the stream".to_owned(),
                    ));
                }
                Some(status) => {
                    let text = answer.description.unwrap_or_default();
                    return Err(Fault::Unavailable(format!("{text} ({status})")));
                }
            }
        }
        Err(Fault::Unavailable("the connection was closed".to_owned()))
    }
}

/// Reads an answer, and checks that none between it and the one before was lost on the way.
fn got(answer: Message, before: Option<&Got>) -> Result<Got, Fault> {
    let unreadable = || Fault::Unreadable("a message without its place".to_owned());
    let message_headers = answer.headers.ok_or_else(unreadable)?;
    let sequence = headers::number(&message_headers, header::NATS_SEQUENCE.as_ref());
    let subject = headers::text(&message_headers, header::NATS_SUBJECT.as_ref());
    let said = headers::number(&message_headers, header::NATS_LAST_SEQUENCE.as_ref());
    if let (Some(said), Some(before)) = (said, before)
        && said != before.sequence
    {
        return Err(Fault::Unavailable(
            "a part of the answer was lost".to_owned(),
        ));
    }
    Ok(Got {
        sequence: sequence.ok_or_else(unreadable)?,
        subject: subject.ok_or_else(unreadable)?.to_owned(),
        headers: message_headers,
        payload: answer.payload,
    })
}
