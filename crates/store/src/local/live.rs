//! Live frames within one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::id::SessionKey;
use steadfast_protocol::live::LiveFrame;
use tokio::sync::mpsc;

use super::lock;
use crate::error::ReadError;
use crate::live::{FOLLOWER_FRAMES_MAX, Live, LiveSignal};

/// Sessions below which nobody looks for abandoned ones.
const SWEEP_MIN: usize = 64;
/// Space in a follower's queue before it is given frames again after it lost some: frames come in
/// runs, not singly between losses.
const RESUME_SPACE_MIN: usize = FOLLOWER_FRAMES_MAX / 2;

/// Live frames of all sessions of a process.
#[derive(Debug, Default)]
pub struct LocalLive {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<SessionKey, Vec<Follower>>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Follower {
    queue: mpsc::Sender<LiveSignal>,
    lost: bool,
}

impl Follower {
    /// Tells of a loss, unless it was told and nothing came since.
    fn lose(&mut self) {
        if !self.lost {
            self.lost = true;
            // A follower that is gone needs no news; one that is full was told before.
            let _gone = self.queue.try_send(LiveSignal::Lost);
        }
    }

    /// Gives a frame, or a loss in the last place that is left, or nothing while frames are lost.
    fn offer(&mut self, frame: &Arc<LiveFrame>) {
        let space = self.queue.capacity();
        if self.lost && space < RESUME_SPACE_MIN {
            return;
        }
        self.lost = space <= 1;
        let signal = if self.lost {
            LiveSignal::Lost
        } else {
            LiveSignal::Frame(Arc::clone(frame))
        };
        // A follower that is gone needs no frame; one that is full was told before.
        let _gone = self.queue.try_send(signal);
    }
}

impl State {
    /// Drops abandoned sessions whenever as many were added as were left the last time.
    fn sweep(&mut self) {
        if self.sessions.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.sessions.retain(|_, followers| {
                followers.retain(|follower| !follower.queue.is_closed());
                !followers.is_empty()
            });
            self.sweep_at = self.sessions.len().saturating_mul(2);
        }
    }
}

impl LocalLive {
    /// Tells all present followers of a session that frames were lost before they came here.
    pub fn lost(&self, session: &SessionKey) {
        if let Some(followers) = lock(&self.state).sessions.get_mut(session) {
            followers.iter_mut().for_each(Follower::lose);
        }
    }
}

#[async_trait]
impl Live for LocalLive {
    fn publish(&self, session: &SessionKey, frame: Arc<LiveFrame>) {
        let mut state = lock(&self.state);
        let Some(followers) = state.sessions.get_mut(session) else {
            return;
        };
        followers.retain(|follower| !follower.queue.is_closed());
        for follower in followers.iter_mut() {
            follower.offer(&frame);
        }
        if followers.is_empty() {
            state.sessions.remove(session);
        }
    }

    async fn subscribe(
        &self,
        session: &SessionKey,
    ) -> Result<BoxStream<'static, LiveSignal>, ReadError> {
        // One place more than frames: the last is for the news that some were lost.
        let (queue, receiver) = mpsc::channel(FOLLOWER_FRAMES_MAX + 1);
        let mut state = lock(&self.state);
        state.sweep();
        let followers = state.sessions.entry(session.clone()).or_default();
        followers.push(Follower { queue, lost: false });
        drop(state);
        let signals = stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        Ok(signals.boxed())
    }
}
