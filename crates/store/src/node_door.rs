//! The node-door port: asking another node something, now or not at all.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use steadfast_core::id::NodeId;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::error::ReadError;

/// Questions that wait for a node's attention; further ones are unanswered, as on a busy network.
pub const DOOR_QUESTIONS_MAX: usize = 4_096;

/// A question that another node asks.
#[derive(Debug)]
pub struct Question {
    /// Its bytes.
    pub bytes: Bytes,
    /// Where the answer goes; dropped, the asker runs into its time limit.
    pub reply: oneshot::Sender<Bytes>,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AskError {
    /// Nobody listens at that door: said at once, but never proof that the node is dead.
    #[error("no node listens at that door")]
    NoResponders,
    /// No answer came in time: the question may have been heard.
    #[error("the node did not answer in time")]
    TimedOut,
    /// It could not be asked.
    #[error("the door cannot be reached: {0}")]
    Unavailable(String),
}

/// Doors of nodes: questions and answers that are not stored. A question is heard at most once,
/// or never; one whose answer is lost may have been heard.
#[async_trait]
pub trait NodeDoors: Send + Sync {
    /// Listens at this node's own door until dropped.
    async fn listen(&self, node: &NodeId) -> Result<BoxStream<'static, Question>, ReadError>;

    /// Asks a node.
    async fn ask(&self, node: &NodeId, bytes: Bytes, patience: Duration)
    -> Result<Bytes, AskError>;
}
