//! Requests to the broker: one question, one answer, and what is known when none comes.

use std::sync::Arc;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{RawMessageError, RawMessageErrorKind, Stream};
use async_nats::{HeaderMap, Message, Request, RequestError, RequestErrorKind};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::connect::{Connection, chain};
use crate::fault::{Fault, code};

/// Prefix of the broker's own subjects.
pub(crate) const API: &str = "$JS.API";

/// The broker stored a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Stored {
    /// Its number in the stream.
    #[serde(rename = "seq")]
    pub(crate) sequence: u64,
}

impl Connection {
    /// Stores a message.
    pub(crate) async fn publish(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Stored, Fault> {
        let request = Request::new().headers(headers).payload(payload);
        answer(&self.ask(subject, request).await?.payload)
    }

    /// Asks the broker's interface.
    pub(crate) async fn api<T: DeserializeOwned>(
        &self,
        subject: &str,
        question: &impl Serialize,
    ) -> Result<T, Fault> {
        let question =
            serde_json::to_vec(question).map_err(|error| Fault::Unreadable(error.to_string()))?;
        let request = Request::new().payload(question.into());
        let subject = format!("{API}.{subject}");
        answer(&self.ask(&subject, request).await?.payload)
    }

    /// One question, one answer, within the time of a request.
    pub(crate) async fn ask(&self, subject: &str, request: Request) -> Result<Message, Fault> {
        self.ready().await?;
        let request = request.timeout(Some(self.request_timeout));
        // The client's own limit begins only when it has taken the question.
        let asked = self.client.send_request(subject.to_owned(), request);
        match timeout(self.request_timeout * 2, asked).await {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(error)) => Err(request_fault(&error)),
            Err(_) => Err(Fault::Unknown("the connection is congested".to_owned())),
        }
    }

    /// Removes the messages of a subject, which may have wildcards, below a number.
    pub(crate) async fn purge(
        &self,
        stream: &str,
        subject: &str,
        below: Option<u64>,
    ) -> Result<(), Fault> {
        let mut question = json!({ "filter": subject });
        if let (Some(below), Some(question)) = (below, question.as_object_mut()) {
            question.insert("seq".to_owned(), below.into());
        }
        let subject = format!("STREAM.PURGE.{stream}");
        let _purged: Value = self.api(&subject, &question).await?;
        Ok(())
    }

    /// The last message of a subject, which may have wildcards, as the stream's leader has it.
    pub(crate) async fn last(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StreamMessage>, Fault> {
        self.ready().await?;
        let stream = self.stream(stream).await?;
        let asked = stream.raw_message_builder().last_by_subject(subject).send();
        found(timeout(self.request_timeout * 2, asked).await)
    }

    /// The first message of a subject from a number on, as the stream's leader has it.
    pub(crate) async fn next(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
    ) -> Result<Option<StreamMessage>, Fault> {
        self.ready().await?;
        let stream = self.stream(stream).await?;
        let asked = stream.raw_message_builder().sequence(from);
        let asked = asked.next_by_subject(subject).send();
        found(timeout(self.request_timeout * 2, asked).await)
    }

    /// The subjects of a stream that fit a pattern, as its leader has them.
    pub(crate) async fn subjects(&self, stream: &str, pattern: &str) -> Result<Vec<String>, Fault> {
        let mut subjects = Vec::new();
        loop {
            let question = json!({ "subjects_filter": pattern, "offset": subjects.len() });
            let info: SubjectsInfo = self
                .api(&format!("STREAM.INFO.{stream}"), &question)
                .await?;
            let page = info.state.subjects.unwrap_or_default();
            let empty = page.is_empty();
            subjects.extend(page.into_keys());
            if empty || subjects.len() as u64 >= info.total {
                return Ok(subjects);
            }
        }
    }

    async fn stream(&self, name: &str) -> Result<Stream<()>, Fault> {
        let named = self.context.get_stream_no_info(name).await;
        named.map_err(|error| Fault::Unreadable(error.to_string()))
    }
}

#[derive(Deserialize)]
struct SubjectsInfo {
    #[serde(default)]
    total: u64,
    state: SubjectsState,
}

#[derive(Deserialize)]
struct SubjectsState {
    subjects: Option<std::collections::BTreeMap<String, u64>>,
}

fn request_fault(error: &RequestError) -> Fault {
    match error.kind() {
        RequestErrorKind::NoResponders => Fault::Unavailable(
            "no server leads the stream: an election, too few servers, or no such stream"
                .to_owned(),
        ),
        RequestErrorKind::TimedOut => Fault::Unknown("no answer in time".to_owned()),
        RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::InvalidSubject => Fault::Refused {
            code: 0,
            status: 400,
            text: chain(error),
        },
        RequestErrorKind::Other => Fault::Unknown(chain(error)),
    }
}

fn answer<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Fault> {
    let unreadable = |error: serde_json::Error| Fault::Unreadable(error.to_string());
    let value: Value = serde_json::from_slice(payload).map_err(unreadable)?;
    if let Some(error) = value.get("error") {
        let number = |name: &str| error.get(name).and_then(Value::as_u64).unwrap_or_default();
        let text = error.get("description").and_then(Value::as_str);
        return Err(Fault::Refused {
            code: number("err_code"),
            status: number("code"),
            text: text.unwrap_or_default().to_owned(),
        });
    }
    serde_json::from_value(value).map_err(unreadable)
}

fn found(
    outcome: Result<Result<StreamMessage, RawMessageError>, tokio::time::error::Elapsed>,
) -> Result<Option<StreamMessage>, Fault> {
    let error = match outcome {
        Ok(Ok(message)) => return Ok(Some(message)),
        Ok(Err(error)) => error,
        Err(_) => return Err(Fault::Unavailable("no answer in time".to_owned())),
    };
    match error.kind() {
        RawMessageErrorKind::NoMessageFound => Ok(None),
        RawMessageErrorKind::JetStream(error) if error.error_code().0 == code::NO_MESSAGE => {
            Ok(None)
        }
        RawMessageErrorKind::JetStream(error) => Err(Fault::Refused {
            code: error.error_code().0,
            status: error.code() as u64,
            text: error.to_string(),
        }),
        RawMessageErrorKind::InvalidSubject | RawMessageErrorKind::Other => {
            Err(Fault::Unavailable(chain(&error)))
        }
    }
}

/// The connection as ports hold it.
pub(crate) type Shared = Arc<Connection>;
