//! Doors of nodes that are all in this process.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::id::NodeId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::lock;
use crate::error::ReadError;
use crate::node_door::{AskError, DOOR_QUESTIONS_MAX, NodeDoors, Question};

/// The doors behind [`NodeDoors`].
#[derive(Debug, Default)]
pub struct LocalNodeDoors {
    doors: Mutex<BTreeMap<NodeId, mpsc::Sender<Question>>>,
}

impl LocalNodeDoors {
    fn door(&self, node: &NodeId) -> Option<mpsc::Sender<Question>> {
        let mut doors = lock(&self.doors);
        doors.retain(|_, door| !door.is_closed());
        doors.get(node).cloned()
    }
}

#[async_trait]
impl NodeDoors for LocalNodeDoors {
    async fn listen(&self, node: &NodeId) -> Result<BoxStream<'static, Question>, ReadError> {
        let (door, receiver) = mpsc::channel(DOOR_QUESTIONS_MAX);
        lock(&self.doors).insert(node.clone(), door);
        let questions = stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        Ok(questions.boxed())
    }

    async fn ask(
        &self,
        node: &NodeId,
        bytes: Bytes,
        patience: Duration,
    ) -> Result<Bytes, AskError> {
        let until = Instant::now() + patience;
        let Some(door) = self.door(node) else {
            return Err(AskError::NoResponders);
        };
        let (reply, answer) = oneshot::channel();
        // A door before which too many wait leaves this one unanswered.
        let _full = door.try_send(Question { bytes, reply });
        drop(door);
        match timeout_at(until, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => {
                sleep_until(until).await;
                Err(AskError::TimedOut)
            }
            Err(_) => Err(AskError::TimedOut),
        }
    }
}
