//! Where a follower hears from.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use steadfast_protocol::live::LiveFrame;
use steadfast_store::live::LiveSignal;

use crate::feed::Kept;

/// What a follower listens to.
pub(super) struct Sources {
    pub(super) signals: BoxStream<'static, ()>,
    /// The owner in this process, if there is one: it shows a Record a moment after the log has it.
    pub(super) owner: Option<Kept>,
    /// No other node appends: of what an owner here shows, the log's signals tell nothing new.
    pub(super) alone: bool,
    pub(super) frames: Option<BoxStream<'static, LiveSignal>>,
}

/// What is heard.
pub(super) enum News {
    Signal,
    /// Nothing was heard for long.
    Silence,
    Frame(Arc<LiveFrame>),
    FramesLost,
    Closed,
}

impl Sources {
    pub(super) async fn next(&mut self) -> News {
        let hears_the_log = self.owner.is_none() || !self.alone;
        let owner = async {
            match &mut self.owner {
                Some(kept) => kept.changed().await,
                None => std::future::pending().await,
            }
        };
        let frames = async {
            match &mut self.frames {
                Some(frames) => frames.next().await,
                None => std::future::pending().await,
            }
        };
        // Frames first: they were shown before the Record that ends their step.
        tokio::select! { biased;
            frame = frames => match frame {
                Some(LiveSignal::Frame(frame)) => News::Frame(frame),
                Some(LiveSignal::Lost) => News::FramesLost,
                None => News::Closed,
            },
            signal = self.signals.next(), if hears_the_log => match signal {
                Some(()) => News::Signal,
                None => News::Closed,
            },
            stays = owner => {
                if !stays {
                    // The owner is gone; what it did not show any more is read from the log.
                    self.owner = None;
                }
                News::Signal
            }
        }
    }
}
