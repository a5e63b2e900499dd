//! Followers of logs within one process.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use steadfast_core::id::SessionKey;
use tokio::sync::mpsc;

use super::lock;

/// Entries below which nobody looks for abandoned ones.
const SWEEP_MIN: usize = 64;

/// Signals to the followers of each session. Signals that come while a follower is busy are one.
/// Followers wake in the order in which they came, so that runs of a simulation are the same.
#[derive(Debug, Default)]
pub struct Signals {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<SessionKey, Vec<mpsc::Sender<()>>>,
    sweep_at: usize,
}

impl Signals {
    /// Signals from now on, the first at once.
    pub fn follow(&self, session: &SessionKey) -> BoxStream<'static, ()> {
        let (sender, receiver) = mpsc::channel(1);
        // There is room for one: the first.
        let _first = sender.try_send(());
        let mut state = lock(&self.state);
        state.sweep();
        let followers = state.sessions.entry(session.clone()).or_default();
        followers.push(sender);
        drop(state);
        stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await?;
            Some(((), receiver))
        })
        .boxed()
    }

    /// Something is new in this session.
    pub fn signal(&self, session: &SessionKey) {
        let mut state = lock(&self.state);
        let Some(followers) = state.sessions.get_mut(session) else {
            return;
        };
        followers.retain(|follower| {
            // One that is full was told already.
            !matches!(
                follower.try_send(()),
                Err(mpsc::error::TrySendError::Closed(()))
            )
        });
        if followers.is_empty() {
            state.sessions.remove(session);
        }
    }
}

impl State {
    /// Drops abandoned entries whenever as many were added as were left the last time.
    fn sweep(&mut self) {
        if self.sessions.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.sessions.retain(|_, followers| {
                followers.retain(|follower| !follower.is_closed());
                !followers.is_empty()
            });
            self.sweep_at = self.sessions.len().saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use steadfast_core::id::{SessionId, TenantId};

    use super::*;

    fn session(name: &str) -> SessionKey {
        SessionKey {
            tenant: TenantId::new("t").unwrap(),
            session: SessionId::new(name).unwrap(),
        }
    }

    #[tokio::test]
    async fn signals_come_at_once_then_only_for_news_of_the_session() {
        let signals = Signals::default();
        let mut follower = signals.follow(&session("a"));
        assert_eq!(follower.next().now_or_never(), Some(Some(())));
        assert_eq!(follower.next().now_or_never(), None);
        signals.signal(&session("b"));
        assert_eq!(follower.next().now_or_never(), None);
        signals.signal(&session("a"));
        signals.signal(&session("a"));
        assert_eq!(follower.next().now_or_never(), Some(Some(())));
        assert_eq!(follower.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn abandoned_sessions_are_forgotten() {
        let signals = Signals::default();
        let kept = signals.follow(&session("kept"));
        for n in 0..10 * SWEEP_MIN {
            drop(signals.follow(&session(&n.to_string())));
        }
        assert!(lock(&signals.state).sessions.len() <= SWEEP_MIN);
        assert!(lock(&signals.state).sessions.contains_key(&session("kept")));
        drop(kept);
        signals.signal(&session("kept"));
        assert!(!lock(&signals.state).sessions.contains_key(&session("kept")));
    }
}
