//! The live port: frames of running steps, from a session's owner to its followers.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use steadfast_core::id::SessionKey;
use steadfast_protocol::live::LiveFrame;

use crate::error::ReadError;

/// Frames in flight to one follower; a slower one loses frames, never slows the owner.
pub const FOLLOWER_FRAMES_MAX: usize = 1_024;

/// Something a follower receives.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveSignal {
    /// A frame; shared, so that followers in the owner's process cost no copy and no codec.
    Frame(Arc<LiveFrame>),
    /// Frames were lost: what is shown of the open step is incomplete.
    Lost,
}

/// Live frames: not stored, in order, at most once. A follower that is too slow is told so by
/// [`LiveSignal::Lost`] in the place of what it missed, and receives later frames again.
#[async_trait]
pub trait Live: Send + Sync {
    /// Sends a frame to all present followers; never waits.
    fn publish(&self, session: &SessionKey, frame: Arc<LiveFrame>);

    /// The frames from now on, until dropped.
    async fn subscribe(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, LiveSignal>, ReadError>;
}
