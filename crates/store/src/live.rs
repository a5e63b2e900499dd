//! The live port: frames of running steps, from a session's owner to its followers.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;

use crate::error::ReadError;

/// Frames in flight to one follower; a slower one loses frames, never slows the owner.
pub const FOLLOWER_FRAMES_MAX: usize = 1_024;

/// Something a follower receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveSignal {
    /// A frame, see `steadfast_protocol::live`.
    Frame(Bytes),
    /// Frames were lost: what is shown of the open step is incomplete.
    Lost,
}

/// Live frames: not stored, in order, at most once.
#[async_trait]
pub trait Live: Send + Sync {
    /// Sends a frame to all present followers; never waits.
    fn publish(&self, session: &SessionKey, frame: Bytes);

    /// The frames from now on, until dropped.
    async fn subscribe(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, LiveSignal>, ReadError>;
}
