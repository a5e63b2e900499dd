//! The port to a model.

use async_trait::async_trait;
use steadfast_core::content::ModelReply;
use steadfast_core::input::ModelFailure;
use steadfast_protocol::live::Delta;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::request::ModelRequest;

/// A model provider: one wire, one base URL, one key.
///
/// `reply` makes exactly one request and gives a reply only if the wire's own terminal event came;
/// everything else is a [`ModelFailure`] with a class that says what can be done. It stops soon
/// after `cancelled` fires, with any failure. Deltas go to `deltas` in order as they come; a full
/// channel is waited for (the receiver is in this process and always reads), a closed one is
/// ignored.
#[async_trait]
pub trait ModelProvider: Send + Sync {
    /// Asks for one reply.
    async fn reply(
        &self,
        request: ModelRequest,
        deltas: mpsc::Sender<Delta>,
        cancelled: CancellationToken,
    ) -> Result<ModelReply, ModelFailure>;

    /// Tokens that fit a request and its reply together, as far as known of this model.
    fn context_window_tokens(&self, model: &str) -> Option<u64>;
}
