//! Doors of nodes over the broker's plain messages.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Message, Request, RequestErrorKind, Subscriber};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream, FuturesUnordered};
use steadfast_core::id::NodeId;
use steadfast_store::error::ReadError;
use steadfast_store::node_door::{AskError, DOOR_QUESTIONS_MAX, NodeDoors, Question};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::connect::chain;
use crate::request::Shared;
use crate::subject::Names;
use crate::task::Owned;

/// [`NodeDoors`] over the broker.
#[derive(Debug)]
pub(crate) struct NatsNodeDoors {
    connection: Shared,
    names: Arc<Names>,
}

impl NatsNodeDoors {
    pub(crate) fn new(connection: Shared, names: Arc<Names>) -> Self {
        Self { connection, names }
    }
}

#[async_trait]
impl NodeDoors for NatsNodeDoors {
    async fn listen(&self, node: &NodeId) -> Result<BoxStream<'static, Question>, ReadError> {
        let knocks = self.connection.client.subscribe(self.names.door(node));
        let knocks = knocks
            .await
            .map_err(|error| ReadError::Unavailable(error.to_string()))?;
        let (queue, questions) = mpsc::channel(DOOR_QUESTIONS_MAX);
        let client = self.connection.client.clone();
        let task = Owned::spawn(attend(client, knocks, queue));
        let questions = stream::unfold((questions, task), |(mut questions, task)| async {
            Some((questions.recv().await?, (questions, task)))
        });
        Ok(questions.boxed())
    }

    async fn ask(
        &self,
        node: &NodeId,
        bytes: Bytes,
        patience: Duration,
    ) -> Result<Bytes, AskError> {
        let asked = async {
            let unavailable = |fault: crate::fault::Fault| AskError::Unavailable(fault.to_string());
            self.connection.ready().await.map_err(unavailable)?;
            // Bounded outside, so that the time in which it is handed over counts too.
            let request = Request::new().payload(bytes).timeout(None);
            let door = self.names.door(node);
            let answer = self.connection.client.send_request(door, request).await;
            answer.map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => AskError::NoResponders,
                RequestErrorKind::TimedOut => AskError::TimedOut,
                RequestErrorKind::InvalidSubject
                | RequestErrorKind::MaxPayloadExceeded
                | RequestErrorKind::Other => AskError::Unavailable(chain(&error)),
            })
        };
        match timeout(patience, asked).await {
            Ok(answer) => Ok(answer?.payload),
            Err(_) => Err(AskError::TimedOut),
        }
    }
}

/// Passes questions on, and answers back.
async fn attend(client: Client, mut knocks: Subscriber, queue: mpsc::Sender<Question>) {
    let mut answers = FuturesUnordered::new();
    loop {
        tokio::select! {
            knock = knocks.next() => {
                let Some(Message { payload, reply: Some(reply), .. }) = knock else {
                    if knock.is_none() {
                        return;
                    }
                    continue;
                };
                let (sender, answer) = oneshot::channel();
                let question = Question { bytes: payload, reply: sender };
                // Before a door at which too many wait, this one stays unanswered.
                if queue.try_send(question).is_ok() {
                    answers.push(async move { (reply, answer.await) });
                }
            }
            Some((reply, answer)) = answers.next(), if !answers.is_empty() => {
                // Without an answer the asker runs into his time limit, as the port says.
                if let Ok(answer) = answer
                    && let Err(error) = client.publish(reply, answer).await
                {
                    tracing::debug!(%error, "an answer at the door was not sent");
                }
            }
        }
    }
}
